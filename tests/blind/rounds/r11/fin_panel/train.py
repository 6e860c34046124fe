"""Cross-sectional next-day return model; walk-forward validation on history, then the live book."""
import argparse
import os

import numpy as np
import torch

FEATURES = ["value", "flow", "size", "vol5", "mom5"]


def load(path):
    with open(path) as f:
        head = f.readline().strip().split(",")
    raw = np.loadtxt(path, delimiter=",", skiprows=1)
    col = {c: i for i, c in enumerate(head)}
    return raw[:, col["day"]].astype(int), raw[:, [col[c] for c in FEATURES]], raw[:, col["fwd_ret"]]


def zscore_by_day(day, x):
    out = np.empty_like(x)
    for d in np.unique(day):
        m = day == d
        out[m] = (x[m] - x[m].mean(0)) / (x[m].std(0) + 1e-9)
    return out


def rank_ic(day, pred, y):
    ics = []
    for d in np.unique(day):
        m = day == d
        a, b = pred[m].argsort().argsort(), y[m].argsort().argsort()
        ics.append(np.corrcoef(a, b)[0, 1])
    return float(np.mean(ics))


def build(n):
    return torch.nn.Sequential(torch.nn.Linear(n, 32), torch.nn.GELU(), torch.nn.Dropout(0.1),
                               torch.nn.Linear(32, 16), torch.nn.GELU(), torch.nn.Linear(16, 1))


def predict(net, x):
    net.eval()
    with torch.no_grad():
        return net(x).squeeze(1).numpy()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("folder")
    ap.add_argument("--epochs", type=int, default=8)
    args = ap.parse_args()
    torch.manual_seed(9)

    day, x, y = load(os.path.join(args.folder, "history.csv"))
    x = torch.tensor(zscore_by_day(day, x), dtype=torch.float32)
    yz = torch.tensor(zscore_by_day(day, y[:, None])[:, 0], dtype=torch.float32)
    cut = 270
    tr = torch.from_numpy(np.flatnonzero(day < cut - 5))      # gap of five days between the two
    va = np.flatnonzero(day >= cut)

    net = build(len(FEATURES))
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs)
    for epoch in range(args.epochs):
        net.train()
        tot = 0.0
        for b in tr[torch.randperm(len(tr))].split(128):
            loss = (net(x[b]).squeeze(1) - yz[b]).square().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item() * len(b)
        sched.step()
        print(f"epoch {epoch} mse {tot / len(tr):.4f} val IC {rank_ic(day[va], predict(net, x[va]), y[va]):.4f}")

    lday, lx, ly = load(os.path.join(args.folder, "live.csv"))
    lx = torch.tensor(zscore_by_day(lday, lx), dtype=torch.float32)
    print(f"live rank IC {rank_ic(lday, predict(net, lx), ly):.4f}")


if __name__ == "__main__":
    main()
