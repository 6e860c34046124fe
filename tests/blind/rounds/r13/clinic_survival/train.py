"""DeepSurv: Cox partial likelihood with a small network. usage: train.py FOLDER"""
import os
import sys
import numpy as np
import torch
from torch import nn

FOLDER = sys.argv[1]


def read(name):
    a = np.loadtxt(os.path.join(FOLDER, name), delimiter=",", skiprows=1, dtype=np.float32)
    return torch.from_numpy(a[:, :8]), torch.from_numpy(a[:, 8]), torch.from_numpy(a[:, 9])


def cox_loss(risk, time, event):
    order = torch.argsort(time, descending=True)
    risk, event = risk[order], event[order]
    log_cum = torch.logcumsumexp(risk, 0)
    return -((risk - log_cum) * event).sum() / event.sum().clamp(min=1)


def c_index(risk, time, event):
    earlier = (time[:, None] < time[None]) & (event[:, None] > 0)
    conc = (risk[:, None] > risk[None]) & earlier
    return conc.sum().item() / earlier.sum().item()


def main():
    torch.manual_seed(12)
    x, t, e = read("cohort.csv")
    xr, tr, er = read("registry.csv")
    perm = torch.randperm(len(x))
    fit, val = perm[300:], perm[:300]
    net = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Dropout(0.1), nn.Linear(32, 1))
    opt = torch.optim.Adam(net.parameters(), lr=3e-3, weight_decay=1e-3)
    best, keep = float("inf"), None
    for epoch in range(40):
        net.train()
        for idx in fit[torch.randperm(len(fit))].split(100):
            loss = cox_loss(net(x[idx]).squeeze(1), t[idx], e[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
        net.eval()
        with torch.no_grad():
            v = cox_loss(net(x[val]).squeeze(1), t[val], e[val]).item()
        if v < best:
            best, keep = v, {k: w.clone() for k, w in net.state_dict().items()}
        if epoch % 8 == 7:
            print(f"epoch {epoch + 1} train {loss.item():.4f} val {v:.4f}")
    net.load_state_dict(keep)
    net.eval()
    with torch.no_grad():
        print("final registry C-index", c_index(net(xr).squeeze(1), tr, er))


main()
