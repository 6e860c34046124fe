"""Contrastive embeddings of clothing pictures (NT-Xent): find the same garment in another photo."""
import gzip
import os
import struct

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

ROOT = os.path.join(os.environ["TRUELOOP_DATA"], "fashion-mnist")
CFG = dict(n_train=3000, n_val=1000, batch=128, epochs=11, lr=1.5e-3, tau=0.2, dim=64)


def read_idx(name, count):
    with gzip.open(os.path.join(ROOT, name), "rb") as fh:
        magic = struct.unpack(">I", fh.read(4))[0]
        shape = struct.unpack(">" + "I" * (magic & 255), fh.read(4 * (magic & 255)))
        per = int(np.prod(shape[1:])) if len(shape) > 1 else 1
        raw = np.frombuffer(fh.read(count * per), dtype=np.uint8)
    return raw.reshape((count,) + shape[1:]).copy()


def load():
    x = torch.from_numpy(read_idx("train-images-idx3-ubyte.gz", CFG["n_train"])).float() / 255
    xv = torch.from_numpy(read_idx("t10k-images-idx3-ubyte.gz", CFG["n_val"])).float() / 255
    return x, xv


def view(x, gen):
    """Random shift, contrast, noise and a blanked patch, per picture."""
    n = len(x)
    pad = F.pad(x, (3, 3, 3, 3))
    dy = torch.randint(1, 6, (n, 1, 1), generator=gen)
    dx = torch.randint(1, 6, (n, 1, 1), generator=gen)
    rows = torch.arange(28).view(1, 28, 1) + dy
    cols = torch.arange(28).view(1, 1, 28) + dx
    out = pad[torch.arange(n).view(n, 1, 1), rows, cols]
    out = out * (0.6 + 0.8 * torch.rand(n, 1, 1, generator=gen))
    out = out + 0.1 * torch.randn(n, 28, 28, generator=gen)
    py = torch.randint(0, 21, (n, 1, 1), generator=gen)
    px = torch.randint(0, 21, (n, 1, 1), generator=gen)
    r, c = torch.arange(28).view(1, 28, 1), torch.arange(28).view(1, 1, 28)
    hole = (r >= py) & (r < py + 7) & (c >= px) & (c < px + 7)
    return out.masked_fill(hole, 0.0)


class Encoder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(),
                                  nn.Linear(256, 128), nn.ReLU())
        self.proj = nn.Linear(128, dim)

    def forward(self, x):
        return F.normalize(self.proj(self.body((x - 0.286) / 0.353)), dim=1)


def nt_xent(za, zb, tau):
    z = torch.stack([za, zb], dim=1).flatten(0, 1)
    sim = z @ z.t() / tau
    sim.fill_diagonal_(float("-inf"))
    positive = torch.arange(len(z)) ^ 1
    return F.cross_entropy(sim, positive)


@torch.no_grad()
def retrieval(model, xv, k=5):
    model.eval()
    gen = torch.Generator().manual_seed(123)
    a, b = model(view(xv, gen)), model(view(xv, gen))
    ranked = (a @ b.t()).topk(k, dim=1).indices
    hit = ranked == torch.arange(len(xv)).unsqueeze(1)
    return hit[:, 0].float().mean().item(), hit.any(1).float().mean().item()


def main():
    torch.set_num_threads(1)
    torch.manual_seed(5)
    gen = torch.Generator().manual_seed(5)
    x, xv = load()
    model = Encoder(CFG["dim"])
    opt = torch.optim.Adam(model.parameters(), lr=CFG["lr"])
    for epoch in range(CFG["epochs"]):
        model.train()
        order = torch.randperm(len(x), generator=gen)
        losses = []
        for idx in order.split(CFG["batch"]):
            za, zb = model(view(x[idx], gen)), model(view(x[idx], gen))
            loss = nt_xent(za, zb, CFG["tau"])
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        top1, top5 = retrieval(model, xv)
        print(f"epoch {epoch:2d} loss {np.mean(losses):.4f} val retrieval top-1 {top1:.4f} top-5 {top5:.4f}")


if __name__ == "__main__":
    main()
