"""Promoter or not, from 120-base windows, with a motif CNN.

usage: train.py FOLDER   (FOLDER has train.fa, valid.fa, test.fa; header: >id label)
"""
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

BASES = "ACGT"


def read_fasta(path):
    seqs, labels = [], []
    for line in path.read_text().splitlines():
        if line.startswith(">"):
            labels.append(int(line.split()[1]))
            seqs.append("")
        else:
            seqs[-1] += line.strip()
    return seqs, np.array(labels)


def one_hot(seqs, length):
    """(N, 4, length); an unknown base gives a zero column."""
    out = np.zeros((len(seqs), 4, length), np.float32)
    lookup = {b: i for i, b in enumerate(BASES)}
    for n, s in enumerate(seqs):
        for p, b in enumerate(s[:length]):
            k = lookup.get(b)
            if k is not None:
                out[n, k, p] = 1.0
    return torch.from_numpy(out)


class MotifNet(nn.Module):
    def __init__(self, filters=24, width=11):
        super().__init__()
        self.conv = nn.Conv1d(4, filters, width, padding=width // 2)
        self.conv2 = nn.Conv1d(filters, 24, 5, padding=2)
        self.drop = nn.Dropout(0.15)
        self.fc = nn.Linear(24, 2)

    def scan(self, x):
        h = F.relu(self.conv(x))
        return F.relu(self.conv2(F.max_pool1d(h, 2))).amax(-1)

    def forward(self, x):
        return self.fc(self.drop(self.scan(x)))


def epoch_pass(model, x, y, opt=None, batch=64):
    model.train(opt is not None)
    order = torch.randperm(len(y)) if opt else torch.arange(len(y))
    loss_sum, hits = 0.0, 0
    with torch.set_grad_enabled(opt is not None):
        for b in order.split(batch):
            z = model(x[b])
            loss = F.cross_entropy(z, y[b])
            if opt:
                opt.zero_grad()
                loss.backward()
                opt.step()
            loss_sum += loss.item() * len(b)
            hits += (z.argmax(1) == y[b]).sum().item()
    return loss_sum / len(y), hits / len(y)


def main():
    torch.manual_seed(4)
    folder = Path(sys.argv[1])
    sets = {}
    for split in ("train", "valid", "test"):
        s, l = read_fasta(folder / f"{split}.fa")
        sets[split] = one_hot(s, 120), torch.from_numpy(l)
        print(f"{split}: {len(s)} windows, {l.mean():.2f} promoters")
    model = MotifNet()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    sched = torch.optim.lr_scheduler.MultiStepLR(opt, [8, 12], gamma=0.3)
    best, keep = 9.0, None
    for epoch in range(14):
        tl, ta = epoch_pass(model, *sets["train"], opt)
        vl, va = epoch_pass(model, *sets["valid"])
        sched.step()
        if vl < best:
            best, keep = vl, {k: v.clone() for k, v in model.state_dict().items()}
        print(f"epoch {epoch:2d} train {tl:.4f}/{ta:.3f} valid {vl:.4f}/{va:.3f}")
    model.load_state_dict(keep)
    print(f"test accuracy {epoch_pass(model, *sets['test'])[1]:.4f}")


if __name__ == "__main__":
    main()
