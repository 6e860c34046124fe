"""Route support tickets to a queue: small labelled set on top of frozen pretrained word vectors."""
import json
import sys
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Tickets(Dataset):
    def __init__(self, path, vocab, queues):
        self.items = []
        with open(path) as fh:
            for line in fh:
                row = json.loads(line)
                ids = [vocab[w] for w in row["text"].split() if w in vocab]
                self.items.append((ids, queues.index(row["queue"])))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def pad(batch):
    longest = max(len(ids) for ids, _ in batch)
    x = torch.zeros(len(batch), longest, dtype=torch.long)
    for k, (ids, _) in enumerate(batch):
        x[k, :len(ids)] = torch.tensor(ids)
    return x, torch.tensor([q for _, q in batch])


class WordEncoder(nn.Module):
    def __init__(self, n_words, dim):
        super().__init__()
        self.vectors = nn.Embedding(n_words, dim, padding_idx=0)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        mask = (x != 0).unsqueeze(-1)
        mean = (self.vectors(x) * mask).sum(1) / mask.sum(1).clamp(min=1)
        return self.norm(mean)


class Router(nn.Module):
    def __init__(self, encoder, dim, n_queues):
        super().__init__()
        self.encoder = encoder
        self.head = nn.Sequential(nn.Linear(dim, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, n_queues))

    def forward(self, x):
        return self.head(self.encoder(x))


def accuracy(model, loader):
    model.eval()
    with torch.no_grad():
        hits = torch.cat([model(x).argmax(1) == y for x, y in loader])
    return hits.float().mean().item()


def main(folder):
    meta = json.loads((folder / "meta.json").read_text())
    torch.manual_seed(meta["seed"])
    vocab = {w: k + 1 for k, w in enumerate(meta["words"])}
    encoder = WordEncoder(len(vocab) + 1, meta["dim"])
    weights = torch.load(folder / "encoder.pt", map_location="cpu")
    encoder.load_state_dict(weights, strict=False)      # the file also holds the old output layer
    for p in encoder.parameters():
        p.requires_grad_(False)

    train = DataLoader(Tickets(folder / "train.jsonl", vocab, meta["queues"]), batch_size=16, shuffle=True, collate_fn=pad)
    val = DataLoader(Tickets(folder / "val.jsonl", vocab, meta["queues"]), batch_size=100, collate_fn=pad)
    model = Router(encoder, meta["dim"], len(meta["queues"]))
    opt = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=meta["lr"])

    for epoch in range(meta["epochs"]):
        model.train()
        total = 0.0
        for x, y in train:
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        if epoch % 5 == 4:
            print(f"epoch {epoch + 1} loss {total / len(train):.3f} val accuracy {accuracy(model, val):.3f}")
    print(f"validation accuracy {accuracy(model, val):.4f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
