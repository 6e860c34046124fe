"""Promoter vs background classifier from FASTA files (label after the | of the header)."""
import sys
from pathlib import Path
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

BASES = {"A": 0, "C": 1, "G": 2, "T": 3}
UNKNOWN = 4
EPOCHS, BATCH = 10, 32


def read_fasta(path):
    header, chunks = None, []
    for line in path.read_text().splitlines():
        if line.startswith(">"):
            if header is not None:
                yield header, "".join(chunks)
            header, chunks = line[1:], []
        else:
            chunks.append(line.strip())
    if header is not None:
        yield header, "".join(chunks)


def load(path):
    tokens, labels = [], []
    for header, seq in read_fasta(path):
        tokens.append([BASES.get(base, UNKNOWN) for base in seq])
        labels.append(1.0 if header.endswith("promoter") else 0.0)
    return TensorDataset(torch.tensor(tokens), torch.tensor(labels))


class PromoterNet(nn.Module):
    def __init__(self, dim=8, filters=32):
        super().__init__()
        self.embed = nn.Embedding(5, dim)
        self.conv = nn.Conv1d(dim, filters, 9, padding=4)
        self.norm = nn.BatchNorm1d(filters)
        self.drop = nn.Dropout(0.25)
        self.head = nn.Linear(filters, 1)

    def forward(self, tok):
        h = self.embed(tok).transpose(1, 2)
        h = F.relu(self.norm(self.conv(h))).amax(2)
        return self.head(self.drop(h)).squeeze(1)


def evaluate(model, loader):
    model.eval()
    loss = hits = n = 0
    with torch.no_grad():
        for tok, y in loader:
            out = model(tok)
            loss += F.binary_cross_entropy_with_logits(out, y, reduction="sum").item()
            hits += ((out > 0).float() == y).sum().item()
            n += len(y)
    return loss / n, hits / n


def main():
    folder = Path(sys.argv[1])
    torch.manual_seed(17)
    train = DataLoader(load(folder / "train.fa"), batch_size=BATCH, shuffle=True)
    val = DataLoader(load(folder / "val.fa"), batch_size=210)
    model = PromoterNet()
    opt = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, EPOCHS, eta_min=2e-4)
    best = float("inf")
    for epoch in range(1, EPOCHS + 1):
        model.train()
        total = 0.0
        for tok, y in train:
            loss = F.binary_cross_entropy_with_logits(model(tok), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(y)
        sched.step()
        val_loss, acc = evaluate(model, val)
        if val_loss < best:
            best = val_loss
            torch.save(model.state_dict(), "/tmp/promoter_best.pt")
        print(f"epoch {epoch:2d} train {total / len(train.dataset):.4f} val {val_loss:.4f} acc {acc:.3f}")
    model.load_state_dict(torch.load("/tmp/promoter_best.pt"))
    print("best checkpoint: val loss %.4f acc %.3f" % evaluate(model, val))


if __name__ == "__main__":
    main()
