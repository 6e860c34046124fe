"""Taxi fare regression, data parallel by hand over two gloo processes started by this script."""
import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torch.distributed as dist
from torch import nn


def trips(n, seed):
    rng = np.random.default_rng(seed)
    pickup = rng.normal(0, 3, (n, 2))
    dropoff = pickup + rng.normal(0, 2.5, (n, 2))
    hour = rng.integers(0, 24, n)
    people = rng.integers(1, 5, n)
    km = np.abs(dropoff - pickup).sum(1)
    rush = np.exp(-0.5 * ((hour - 17.5) / 2) ** 2) + np.exp(-0.5 * ((hour - 8) / 1.5) ** 2)
    airport = np.linalg.norm(dropoff - np.array([5, -4]), axis=1) < 2.0
    fare = 3 + 1.7 * km * (1 + 0.4 * rush) + 9 * airport + rng.normal(0, 1.0, n)
    x = np.column_stack([pickup, dropoff, np.sin(hour * np.pi / 12), np.cos(hour * np.pi / 12), rush, people])
    return torch.tensor(x, dtype=torch.float32), torch.tensor(fare, dtype=torch.float32)


def build():
    return nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))


def average_gradients(model, world):
    flat = torch.cat([p.grad.reshape(-1) for p in model.parameters()])
    dist.all_reduce(flat)
    flat /= world
    offset = 0
    for p in model.parameters():
        p.grad.copy_(flat[offset:offset + p.numel()].view_as(p))
        offset += p.numel()


@torch.no_grad()
def consolidate(model, world):
    for p in model.parameters():
        dist.all_reduce(p)
        p.div_(world)


def work(args):
    dist.init_process_group("gloo", init_method=f"file://{args.rendezvous}", rank=args.rank, world_size=args.world)
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    model = build()
    torch.manual_seed(args.seed + args.rank)
    x, y = trips(4000, seed=1)
    xt, yt = trips(1500, seed=2)
    mu, sd = x.mean(0), x.std(0)
    x, xt = (x - mu) / sd, (xt - mu) / sd
    ym, ys = y.mean(), y.std()
    x, y = x[args.rank::args.world], y[args.rank::args.world]
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(args.batch):
            loss = nn.functional.mse_loss(model(x[idx]).squeeze(1), (y[idx] - ym) / ys)
            opt.zero_grad()
            loss.backward()
            average_gradients(model, args.world)
            opt.step()
            total += loss.item() * len(idx)
        stats = torch.tensor([total, float(len(x))])
        dist.all_reduce(stats)
        if args.rank == 0:
            print(f"epoch {epoch:2d} loss {(stats[0] / stats[1]).item():.4f}", flush=True)
    consolidate(model, args.world)
    if args.rank == 0:
        model.eval()
        with torch.no_grad():
            pred = model(xt).squeeze(1) * ys + ym
        print(f"test_mae={(pred - yt).abs().mean().item():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


def launch(args):
    with tempfile.TemporaryDirectory() as tmp:
        base = [sys.executable, __file__, "--rendezvous", os.path.join(tmp, "store"), "--seed", str(args.seed)]
        procs = [subprocess.Popen(base + ["--rank", str(r)]) for r in range(args.world)]
        sys.exit(max(p.wait() for p in procs))


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--rank", type=int, default=-1)
    p.add_argument("--world", type=int, default=2)
    p.add_argument("--rendezvous", default="")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--batch", type=int, default=50)
    p.add_argument("--epochs", type=int, default=8)
    args = p.parse_args()
    launch(args) if args.rank < 0 else work(args)
