"""Silt in village drainage networks: depth at the outfall (cm) from the network of culverts upstream."""
import argparse
import math

import numpy as np
import torch
import torch.nn as nn


def make_network(rng, n_nodes=12):
    parent = np.array([-1] + [int(rng.integers(max(0, i - 4), i)) for i in range(1, n_nodes)])
    size = int(rng.integers(6, n_nodes + 1))
    slope = rng.gamma(3.0, 0.4, n_nodes)
    width = rng.choice([0.3, 0.4, 0.6, 0.8], n_nodes)
    field = rng.gamma(2.0, 1.5, n_nodes)
    cleaned = rng.uniform(0, 36, n_nodes)
    load = np.zeros(n_nodes)
    for i in range(size - 1, -1, -1):
        load[i] += field[i] * (0.4 + 0.05 * cleaned[i])
        if parent[i] >= 0:
            load[parent[i]] += load[i] * math.exp(-0.5 / slope[i]) * (0.5 + width[i])
    depth = 6.0 * math.sqrt(load[0]) / (0.5 + 0.4 * slope[0]) + rng.normal(0, 0.5)
    x = np.stack([slope, width, field, cleaned / 12.0], 1)
    adj = np.zeros((n_nodes, n_nodes))
    for i in range(1, size):
        adj[parent[i], i] = 1.0
    mask = (np.arange(n_nodes) < size).astype(float)
    return x * mask[:, None], adj, mask, depth


def make_data(n, seed):
    rng = np.random.default_rng(seed)
    parts = zip(*(make_network(rng) for _ in range(n)))
    return [torch.tensor(np.array(p), dtype=torch.float32) for p in parts]


class DrainLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.own = nn.Linear(width, width)
        self.up = nn.Linear(width, width)
        self.down = nn.Linear(width, width)

    def forward(self, h, adj, mask):
        msg = self.own(h) + adj @ self.up(h) + adj.transpose(1, 2) @ self.down(h)
        return (h + torch.relu(msg)) * mask.unsqueeze(-1)


class SiltNet(nn.Module):
    def __init__(self, width=40, depth=4):
        super().__init__()
        self.embed = nn.Linear(4, width)
        self.layers = nn.ModuleList(DrainLayer(width) for _ in range(depth))
        self.middle = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, 1))
        self.spread = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, x, adj, mask):
        h = self.embed(x) * mask.unsqueeze(-1)
        for layer in self.layers:
            h = layer(h, adj, mask)
        pooled = h.sum(1) / mask.sum(1, keepdim=True)
        z = torch.cat([h[:, 0], pooled], dim=1)
        return self.middle(z), self.spread(z).clamp(-5, 5)


def laplace_nll(mid, log_b, depth):
    gap = (depth.unsqueeze(1) - mid).abs()
    return (gap * torch.exp(-log_b) + log_b + math.log(2.0)).mean()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=25)
    ap.add_argument("--batch", type=int, default=50)
    ap.add_argument("--lr", type=float, default=1.5e-3)
    args = ap.parse_args()
    torch.manual_seed(17)
    x, adj, mask, depth = make_data(2000, seed=1)
    xv, adjv, maskv, depthv = make_data(500, seed=2)
    real = mask.bool()
    mean, std = x[real].mean(0), x[real].std(0)
    x, xv = (x - mean) / std, (xv - mean) / std
    d_mean, d_std = depth.mean(), depth.std()
    target = (depth - d_mean) / d_std

    model = SiltNet()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs)
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(args.batch):
            mid, log_b = model(x[idx], adj[idx], mask[idx])
            loss = laplace_nll(mid, log_b, target[idx])
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 2.0)
            opt.step()
            total += loss.item() * len(idx)
        sched.step()
        if epoch % 4 == 0:
            model.eval()
            with torch.no_grad():
                mid, _ = model(xv, adjv, maskv)
            mae = (mid.flatten() * d_std + d_mean - depthv).abs().mean()
            print(f"epoch {epoch:2d}  nll {total / len(x):.3f}  val MAE {mae:.2f} cm (sd {depthv.std():.2f})")
    model.eval()
    with torch.no_grad():
        mid, log_b = model(xv, adjv, maskv)
    err = mid.flatten() * d_std + d_mean - depthv
    r2 = 1 - err.pow(2).mean() / depthv.var(unbiased=False)
    print(f"val MAE {err.abs().mean():.3f} cm   R2 {r2:.3f}   mean b {(log_b.exp() * d_std).mean():.2f} cm")


if __name__ == "__main__":
    main()
