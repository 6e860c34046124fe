"""Activity recognition, two workers, each worker reads the files of its own study sites."""
import os
import socket
import tempfile

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

SITES = ["basel", "graz", "lyon", "turin"]
ACTIVITIES = 6


def write_sites(folder, seed=0):
    rng = np.random.default_rng(seed)
    basis = rng.normal(0, 1, (ACTIVITIES, 18))
    for s, site in enumerate(SITES):
        share = np.full(ACTIVITIES, 0.05)
        share[[(s // 2) * 3, (s // 2) * 3 + 1, (s // 2) * 3 + 2]] += 1
        for part, n in (("train", 500), ("test", 200)):
            p = share / share.sum() if part == "train" else None
            y = rng.choice(ACTIVITIES, n, p=p)
            x = basis[y] + rng.normal(0, 1.1, (n, 18)) + rng.normal(0, 0.1, 18)
            np.savez(os.path.join(folder, f"{site}_{part}.npz"), x=x.astype(np.float32), y=y)


def read(folder, sites, part):
    files = [np.load(os.path.join(folder, f"{s}_{part}.npz")) for s in sites]
    return (torch.from_numpy(np.concatenate([f["x"] for f in files])),
            torch.from_numpy(np.concatenate([f["y"] for f in files])))


class ActivityNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(18, 48), nn.ReLU(), nn.Linear(48, ACTIVITIES))

    def forward(self, x):
        return self.net(x)


def objective(model, batch):
    x, y = batch
    return F.cross_entropy(model(x), y, label_smoothing=0.02)


def worker(rank, world, port, folder):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=world)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    ddp = DistributedDataParallel(ActivityNet())
    opt = torch.optim.AdamW(ddp.parameters(), lr=3e-3)
    half = len(SITES) // world
    x, y = read(folder, SITES[rank * half:(rank + 1) * half], "train")
    order = torch.Generator().manual_seed(100 + rank)
    for epoch in range(8):
        ddp.train()
        total = 0.0
        for idx in torch.randperm(len(x), generator=order).split(50):
            loss = objective(ddp.module, (x[idx], y[idx]))
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        mean = torch.tensor(total / (len(x) // 50))
        dist.all_reduce(mean)
        if rank == 0:
            print(f"epoch {epoch} loss {mean.item() / world:.4f}", flush=True)
    if rank == 0:
        model = ddp.module.eval()
        xt, yt = read(folder, SITES, "test")
        with torch.no_grad():
            print(f"test_acc={(model(xt).argmax(1) == yt).float().mean().item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        write_sites(folder)
        mp.spawn(worker, args=(2, port, folder), nprocs=2)
