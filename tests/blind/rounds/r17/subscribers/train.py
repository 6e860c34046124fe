import csv
import sys

import numpy as np
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.data import DataLoader, Dataset


class Usage(Dataset):
    """Monthly usage (hours, tickets, late payments, price), padded with zeros behind the last month."""

    def __init__(self, folder, part):
        self.x = torch.from_numpy(np.load(f"{folder}/{part}_usage.npy"))
        self.x[..., 0] = torch.log1p(self.x[..., 0])
        self.x[..., 3] /= 10
        rows = list(csv.DictReader(open(f"{folder}/{part}_customers.csv")))
        self.n = torch.tensor([int(r["tenure"]) for r in rows])
        self.y = torch.tensor([float(r["churned"]) for r in rows])
        assert len(self.x) == len(self.y) and int(self.n.max()) <= self.x.shape[1] and int(self.n.min()) > 0

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.n[i], self.y[i]


class ChurnGRU(nn.Module):
    def __init__(self, d_in=4, d=32):
        super().__init__()
        self.rnn = nn.GRU(d_in, d, batch_first=True)
        self.out = nn.Linear(d, 1)

    def forward(self, x, n):
        _, h = self.rnn(pack_padded_sequence(x, n, batch_first=True, enforce_sorted=False))
        return self.out(h[-1]).squeeze(1)


def auc(s, y):
    pos, neg = s[y == 1], s[y == 0]
    return (pos[:, None] > neg[None, :]).float().mean().item()


def run(folder):
    torch.manual_seed(6)
    train, test = Usage(folder, "train"), Usage(folder, "test")
    model = ChurnGRU()
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    loss_fn = nn.BCEWithLogitsLoss()
    for epoch in range(10):
        model.train()
        tot = 0.0
        for x, n, y in DataLoader(train, batch_size=50, shuffle=True):
            opt.zero_grad()
            loss = loss_fn(model(x, n), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            tot += loss.item() * len(y)
        print(f"epoch {epoch} bce {tot / len(train):.4f}")
    model.eval()
    with torch.no_grad():
        s = torch.cat([model(x, n) for x, n, _ in DataLoader(test, batch_size=200)])
    print(f"test auc {auc(s, test.y):.3f}")


run(sys.argv[1])
