"""IPC section of a patent from its abstract: token embedding, convolution, max pooling."""
import json
import sys
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, random_split


class Vocabulary:
    def __init__(self, path):
        self.words = path.read_text().split("\n")[:-1]
        self.lookup = {w: i for i, w in enumerate(self.words)}
        self.unk = self.lookup["<unk>"]

    def encode(self, text, max_len):
        ids = [self.lookup.get(w, self.unk) for w in text.lower().split()][:max_len]
        return ids + [0] * (max_len - len(ids))

    def __len__(self):
        return len(self.words)


class AbstractSet(Dataset):
    def __init__(self, path, vocab, max_len):
        records = [json.loads(line) for line in path.open()]
        self.sections = sorted({r["section"] for r in records})
        self.ids = torch.tensor([vocab.encode(r["abstract"], max_len) for r in records])
        self.labels = torch.tensor([self.sections.index(r["section"]) for r in records])

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.ids[i], self.labels[i]


class SectionCNN(nn.Module):
    def __init__(self, n_words, n_sections, s):
        super().__init__()
        self.emb = nn.Embedding(n_words, s["emb"], padding_idx=0)
        self.conv = nn.Conv1d(s["emb"], s["channels"], s["kernel"], padding=s["kernel"] // 2)
        self.drop = nn.Dropout(s["dropout"])
        self.out = nn.Linear(2 * s["channels"], n_sections)

    def forward(self, ids):
        keep = (ids != 0).unsqueeze(1).float()
        h = torch.relu(self.conv(self.drop(self.emb(ids)).transpose(1, 2))) * keep
        pooled = torch.cat([h.amax(-1), h.sum(-1) / keep.sum(-1)], dim=1)
        return self.out(self.drop(pooled))


def evaluate(net, loader):
    net.eval()
    right = n = 0
    with torch.no_grad():
        for ids, lab in loader:
            right += (net(ids).argmax(1) == lab).sum().item()
            n += len(lab)
    return right / n


def main(folder):
    s = json.loads((folder / "settings.json").read_text())
    torch.manual_seed(s["seed"])
    vocab = Vocabulary(folder / "vocab.txt")
    data = AbstractSet(folder / "abstracts.jsonl", vocab, s["max_len"])
    train, val = random_split(data, [len(data) - s["val_rows"], s["val_rows"]])
    train_loader = DataLoader(train, batch_size=s["batch_size"], shuffle=True)
    val_loader = DataLoader(val, batch_size=200)
    net = SectionCNN(len(vocab), len(data.sections), s)
    opt = torch.optim.Adam(net.parameters(), lr=s["lr"])
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(s["epochs"]):
        net.train()
        total = 0.0
        for ids, lab in train_loader:
            loss = loss_fn(net(ids), lab)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(lab)
        print(f"epoch {epoch}: loss {total / len(train):.4f}, val accuracy {evaluate(net, val_loader):.4f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
