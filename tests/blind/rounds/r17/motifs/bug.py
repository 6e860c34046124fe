import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=14)
parser.add_argument("--length", type=int, default=80)
parser.add_argument("--filters", type=int, default=32)
parser.add_argument("--epochs", type=int, default=6)
args = parser.parse_args()

BASES = "ACGT"
# position weight matrices of three factors, as consensus with wobble
SITES = {"GATA": "WGATAAGR", "EBOX": "CACGTGNC", "NFKB": "GGRNTTCC"}
IUPAC = {"A": "A", "C": "C", "G": "G", "T": "T", "W": "AT", "R": "AG", "N": "ACGT"}


def promoter(rng, factor):
    seq = list(rng.choice(list(BASES), args.length, p=[.3, .2, .2, .3]))
    if factor:
        site = [rng.choice(list(IUPAC[c])) for c in SITES[factor]]
        if rng.random() < 0.3:
            site[rng.integers(len(site))] = rng.choice(list(BASES))
        p = rng.integers(0, args.length - len(site))
        seq[p:p + len(site)] = site
    return "".join(seq)


def library(rng, n):
    names = [None] + list(SITES)
    y = rng.integers(0, len(names), n)
    x = np.array([[BASES.index(b) for b in promoter(rng, names[k])] for k in y])
    return torch.from_numpy(x), torch.from_numpy(y)


class MotifNet(nn.Module):
    def __init__(self, length, filters, n_classes):
        super().__init__()
        self.length = length
        self.conv = nn.Conv1d(4, filters, 10, padding=5)
        self.hidden = nn.Linear(filters, 32)
        self.out = nn.Linear(32, n_classes)

    def forward(self, seq):
        x = F.one_hot(seq, 4).float()
        x = x.view(-1, 4, self.length)
        h = F.relu(self.conv(x)).amax(2)
        return self.out(F.dropout(F.relu(self.hidden(h)), 0.1, self.training))


torch.manual_seed(args.seed)
rng = np.random.default_rng(args.seed)
train, test = TensorDataset(*library(rng, 4000)), TensorDataset(*library(rng, 800))
net = MotifNet(args.length, args.filters, len(SITES) + 1)
opt = torch.optim.Adam(net.parameters(), lr=4e-3)

for epoch in range(args.epochs):
    net.train()
    running = 0.0
    for seq, y in DataLoader(train, batch_size=64, shuffle=True):
        loss = F.cross_entropy(net(seq), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        running += loss.item() * len(y)
    print(f"epoch {epoch} cross entropy {running / len(train):.4f}")

net.eval()
with torch.no_grad():
    seq, y = test.tensors
    print(f"held-out accuracy {(net(seq).argmax(1) == y).float().mean():.3f}")
