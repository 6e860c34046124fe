"""Intent detection for a banking assistant on top of frozen pretrained word vectors."""
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

root = Path(sys.argv[1])
SEED, EPOCHS, BATCH = 17, 14, 32
torch.manual_seed(SEED)


def load_vectors(folder):
    words = (folder / "vocab.txt").read_text().split()
    ckpt = torch.load(folder / "vectors.pt", map_location="cpu")
    assert len(words) == len(ckpt["weight"]), "vocabulary and vectors differ in size"
    zero = torch.zeros(2, ckpt["dim"])
    table = torch.cat([zero, ckpt["weight"]])
    index = {w: i + 2 for i, w in enumerate(words)}
    return index, table


class Utterances(Dataset):
    def __init__(self, path, index, labels=None):
        pairs = [line.split("\t") for line in path.read_text().splitlines()]
        self.labels = labels or sorted({lab for _, lab in pairs})
        self.items = [(torch.tensor([index.get(w, 1) for w in text.split()]), self.labels.index(lab))
                      for text, lab in pairs]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(batch):
    seqs, ys = zip(*batch)
    return pad_sequence(seqs, batch_first=True), torch.tensor([len(s) for s in seqs]), torch.tensor(ys)


class IntentModel(nn.Module):
    def __init__(self, table, n_classes, hidden=48):
        super().__init__()
        self.emb = nn.Embedding.from_pretrained(table, freeze=True, padding_idx=0)
        self.drop = nn.Dropout(0.3)
        self.gru = nn.GRU(table.size(1), hidden, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * hidden, n_classes)

    def forward(self, ids, lengths):
        h, _ = self.gru(self.drop(self.emb(ids)))
        mask = torch.arange(ids.size(1))[None, :] < lengths[:, None]
        h = h.masked_fill(~mask.unsqueeze(-1), float("-inf")).max(1).values
        return self.out(self.drop(h))


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    hit = n = 0
    for ids, lengths, y in loader:
        hit += (model(ids, lengths).argmax(1) == y).sum().item()
        n += len(y)
    return hit / n


def main():
    index, table = load_vectors(root)
    train = Utterances(root / "train.tsv", index)
    valid = Utterances(root / "valid.tsv", index, train.labels)
    test = Utterances(root / "test.tsv", index, train.labels)
    train_dl = DataLoader(train, batch_size=BATCH, shuffle=True, collate_fn=collate)
    valid_dl = DataLoader(valid, batch_size=128, collate_fn=collate)
    test_dl = DataLoader(test, batch_size=128, collate_fn=collate)
    print(f"{len(train)} utterances, {len(train.labels)} intents, {len(index)} word vectors")

    model = IntentModel(table, len(train.labels))
    opt = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=2e-3)
    best, state = 0.0, None
    for epoch in range(EPOCHS):
        model.train()
        total = 0.0
        for ids, lengths, y in train_dl:
            loss = nn.functional.cross_entropy(model(ids, lengths), y)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            total += loss.item()
        acc = evaluate(model, valid_dl)
        if acc > best:
            best, state = acc, {k: v.clone() for k, v in model.state_dict().items()}
        print(f"epoch {epoch:02d} loss {total / len(train_dl):.3f} valid acc {acc:.3f}")
    model.load_state_dict(state)
    print(f"test_acc {evaluate(model, test_dl):.4f}")


if __name__ == "__main__":
    main()
