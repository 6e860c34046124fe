"""Delivery-time quantiles (10/50/90 %) with a monotone three-headed network."""
import argparse
import os
import tempfile

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

QUANTILES = torch.tensor([0.1, 0.5, 0.9])


def deliveries(rng, n):
    km = rng.gamma(2.0, 3.0, n)
    hour = rng.uniform(8, 22, n)
    rain = (rng.random(n) < 0.3).astype(float)
    items = rng.integers(1, 12, n)
    rush = np.exp(-0.5 * ((hour - 18) / 1.5) ** 2)
    centre = 8 + 2.4 * km + 6 * rush + 4 * rain + 0.5 * items
    spread = 1.0 + 0.5 * km * (1 + rush) + 2 * rain
    minutes = centre + spread * (rng.gamma(2.0, 1.0, n) - 2.0)
    feats = np.stack([km, np.sin(hour / 24 * 2 * np.pi), np.cos(hour / 24 * 2 * np.pi), hour, rain, items], 1)
    return feats.astype(np.float32), minutes.astype(np.float32)


class QuantileNet(nn.Module):
    def __init__(self, d_in, hidden):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(d_in, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.head = nn.Linear(hidden, 3)

    def forward(self, x):
        low, step1, step2 = self.head(self.body(x)).unbind(1)
        mid = low + F.softplus(step1)
        return torch.stack([low, mid, mid + F.softplus(step2)], dim=1)


def pinball(pred, target):
    err = pred - target.unsqueeze(1)
    return torch.maximum(QUANTILES * err, (QUANTILES - 1) * err).mean()


def report(model, x, y, y_mu, y_sd):
    model.eval()
    with torch.no_grad():
        pred = model(x)
        loss = pinball(pred, (y - y_mu) / y_sd).item()
    pred = pred * y_sd + y_mu
    inside = ((y >= pred[:, 0]) & (y <= pred[:, 2])).float().mean().item()
    width = (pred[:, 2] - pred[:, 0]).mean().item()
    mae = (pred[:, 1] - y).abs().mean().item()
    return loss, inside, width, mae


def save(path, model, opt, sched, epoch):
    torch.save({"model": model.state_dict(), "opt": opt.state_dict(),
                "sched": sched.state_dict(), "epoch": epoch}, path)


def restore(path, model, opt, sched):
    state = torch.load(path, weights_only=True)
    model.load_state_dict(state["model"])
    opt.load_state_dict(state["opt"])
    sched.load_state_dict(state["sched"])
    return state["epoch"] + 1


def train(args, path, until, x, y, xv, yv, y_mu, y_sd):
    model = QuantileNet(x.shape[1], args.hidden)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=args.epochs)
    first = restore(path, model, opt, sched) if os.path.exists(path) else 0
    target = (y - y_mu) / y_sd
    for epoch in range(first, until):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(args.batch):
            loss = pinball(model(x[idx]), target[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        sched.step()
        save(path, model, opt, sched, epoch)
        vl, inside, width, mae = report(model, xv, yv, y_mu, y_sd)
        print(f"epoch {epoch:2d} train {total / len(x):.4f} val {vl:.4f} "
              f"coverage(80%) {inside:.3f} width {width:.2f} median MAE {mae:.2f} min")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=20)
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--hidden", type=int, default=48)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(31)
    rng = np.random.default_rng(31)
    x, y = deliveries(rng, 6000)
    xv, yv = deliveries(rng, 1500)
    mu, sd = x.mean(0), x.std(0)
    x, xv = torch.from_numpy((x - mu) / sd), torch.from_numpy((xv - mu) / sd)
    y, yv = torch.from_numpy(y), torch.from_numpy(yv)
    y_mu, y_sd = y.mean(), y.std()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "last.pt")
        train(args, path, args.epochs // 2, x, y, xv, yv, y_mu, y_sd)
        print("resuming from", os.path.basename(path))
        train(args, path, args.epochs, x, y, xv, yv, y_mu, y_sd)


if __name__ == "__main__":
    main()
