"""Photometric typing of transients (Ia / II-P / slow) from r-band light curves on a fixed phase grid."""
import argparse
import os

import numpy as np
import torch
from torch import nn

ap = argparse.ArgumentParser()
ap.add_argument("folder")
ap.add_argument("--epochs", type=int, default=14)
ap.add_argument("--lr", type=float, default=2e-3)
ap.add_argument("--batch", type=int, default=48)
ap.add_argument("--seed", type=int, default=2)
opts = ap.parse_args()
torch.manual_seed(opts.seed)

archive = np.load(os.path.join(opts.folder, "transients.npz"))
mag = torch.from_numpy(archive["mag"])
label = torch.from_numpy(archive["label"])
phase = torch.from_numpy(archive["phase"])
phase = phase / phase.abs().max()

n_train = int(0.7 * len(label))
split = torch.randperm(len(label))
fit, test = split[:n_train], split[n_train:]
mu, sigma = mag[fit].mean(), mag[fit].std()
mag = (mag - mu) / sigma
print(f"{n_train} objects to fit, {len(test)} to test, magnitude {mu:.2f} +- {sigma:.2f}")


class CurveGRU(nn.Module):
    def __init__(self, hidden=32, n_types=3):
        super().__init__()
        self.inp = nn.Linear(2, hidden)
        self.gru = nn.GRU(hidden, hidden, batch_first=True)
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(2 * hidden, n_types)

    def forward(self, m):
        z = torch.stack([m, phase.expand_as(m)], dim=-1)
        h, _ = self.gru(torch.tanh(self.inp(z)))
        return self.out(self.drop(torch.cat([h.mean(1), h[:, -1]], dim=1)))


net = CurveGRU()
ce = nn.CrossEntropyLoss()
opt = torch.optim.Adam(net.parameters(), lr=opts.lr)
for epoch in range(opts.epochs):
    net.train()
    total = 0.0
    for idx in fit[torch.randperm(n_train)].split(opts.batch):
        loss = ce(net(mag[idx]), label[idx])
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        opt.step()
        total += loss.item() * len(idx)
    net.eval()
    with torch.no_grad():
        logits = net(mag[test])
    acc = (logits.argmax(1) == label[test]).float().mean()
    print(f"epoch {epoch:2d}  fit loss {total / n_train:.4f}  test loss {ce(logits, label[test]):.4f}  test accuracy {acc:.3f}")

table = torch.zeros(3, 3, dtype=torch.long)
for truth, guess in zip(label[test].tolist(), logits.argmax(1).tolist()):
    table[truth, guess] += 1
print("confusion (rows = truth: Ia, II-P, slow)\n", table)
