"""Promoter / background classifier. usage: python train.py FOLDER"""
import sys
from pathlib import Path
import torch
import torch.nn as nn
import torch.nn.functional as F

FOLDER = Path(__file__).parent / sys.argv[1]
VOCAB = {"A": 0, "C": 1, "G": 2, "T": 3}
UNK = 4


def read_fasta(path):
    seqs, labels = [], []
    for line in open(path):
        line = line.strip()
        if line.startswith(">"):
            labels.append(int(line.rsplit("label=", 1)[1]))
        else:
            seqs.append([VOCAB.get(c, UNK) for c in line])
    return torch.tensor(seqs), torch.tensor(labels)


class PromoterNet(nn.Module):
    def __init__(self, dim=8, filters=24):
        super().__init__()
        self.embed = nn.Embedding(5, dim)
        self.conv = nn.Conv1d(dim, filters, 9)
        self.head = nn.Sequential(nn.Linear(filters, 16), nn.ReLU(), nn.Linear(16, 2))

    def forward(self, tokens):
        h = self.embed(tokens).transpose(1, 2)
        return self.head(F.relu(self.conv(h)).amax(-1))


def run(model, x, y, opt=None, batch=40):
    model.train(opt is not None)
    order = torch.randperm(len(x)) if opt is not None else torch.arange(len(x))
    loss_sum = hits = 0.0
    with torch.set_grad_enabled(opt is not None):
        for idx in order.split(batch):
            out = model(x[idx])
            loss = F.cross_entropy(out, y[idx])
            if opt is not None:
                opt.zero_grad()
                loss.backward()
                opt.step()
            loss_sum += loss.item() * len(idx)
            hits += (out.argmax(1) == y[idx]).sum().item()
    return loss_sum / len(x), hits / len(x)


def main():
    torch.manual_seed(5)
    x, y = read_fasta(FOLDER / "train.fa")
    xv, yv = read_fasta(FOLDER / "valid.fa")
    print(f"train {tuple(x.shape)} valid {tuple(xv.shape)}")
    model = PromoterNet()
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(8):
        tl, ta = run(model, x, y, opt)
        vl, va = run(model, xv, yv)
        print(f"epoch {epoch} train loss {tl:.4f} acc {ta:.3f} valid loss {vl:.4f} acc {va:.3f}")


if __name__ == "__main__":
    main()
