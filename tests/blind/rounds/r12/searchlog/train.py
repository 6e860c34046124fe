"""Learning to rank with a listwise softmax loss; rows and group sizes as for LightGBM."""
import argparse
import os

import numpy as np
import torch
from torch import nn


def load(folder, split):
    z = np.load(os.path.join(folder, split + ".npz"))
    sizes = np.loadtxt(os.path.join(folder, split + ".group"), dtype=int)
    x, g = z["x"].astype(np.float32), z["grade"].astype(np.float32)
    if sizes.sum() != len(x):
        raise SystemExit(f"{split}: {sizes.sum()} rows in groups, {len(x)} rows in table")
    return x, g, sizes


def pack(x, g, sizes):
    """Pad the groups to (queries, documents, features) with a mask."""
    q, n = len(sizes), sizes.max()
    px = np.zeros((q, n, x.shape[1]), np.float32)
    pg = np.zeros((q, n), np.float32)
    mask = np.zeros((q, n), bool)
    at = 0
    for k, s in enumerate(sizes):
        px[k, :s], pg[k, :s], mask[k, :s] = x[at:at + s], g[at:at + s], True
        at += s
    return torch.from_numpy(px), torch.from_numpy(pg), torch.from_numpy(mask)


class Scorer(nn.Module):
    def __init__(self, d, hidden):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(d, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(),
                               nn.Linear(hidden, 1))

    def forward(self, x, mask):
        return self.f(x).squeeze(-1).masked_fill(~mask, -1e9)


def listwise(score, grade, mask):
    gain = (2.0 ** grade - 1) * mask
    target = gain / gain.sum(1, keepdim=True).clamp(min=1e-6)
    return -(target * score.log_softmax(1)).sum(1).mean()


def ndcg(score, grade, mask, k=5):
    gain = (2.0 ** grade - 1) * mask
    disc = 1 / torch.log2(torch.arange(2, k + 2).float())
    got = gain.gather(1, score.argsort(1, descending=True)[:, :k])
    ideal = gain.sort(1, descending=True).values[:, :k]
    return ((got * disc).sum(1) / (ideal * disc).sum(1).clamp(min=1e-6)).mean().item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("folder")
    p.add_argument("--epochs", type=int, default=30)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--hidden", type=int, default=32)
    a = p.parse_args()
    torch.manual_seed(77)
    x, g, sizes = load(a.folder, "train")
    mu, sd = x.mean(0), x.std(0)
    train = pack((x - mu) / sd, g, sizes)
    xt, gt, st = load(a.folder, "test")
    test = pack((xt - mu) / sd, gt, st)
    net = Scorer(x.shape[1], a.hidden)
    opt = torch.optim.AdamW(net.parameters(), lr=a.lr, weight_decay=1e-2)
    for epoch in range(a.epochs):
        net.train()
        total = 0.0
        for idx in torch.randperm(len(sizes)).split(a.batch):
            xb, gb, mb = (t[idx] for t in train)
            loss = listwise(net(xb, mb), gb, mb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        if epoch % 5 == 4:
            print(f"epoch {epoch + 1} loss {total / len(sizes):.4f}")
    net.eval()
    with torch.no_grad():
        print(f"test ndcg at five: {ndcg(net(test[0], test[2]), *test[1:]):.4f}")


if __name__ == "__main__":
    main()
