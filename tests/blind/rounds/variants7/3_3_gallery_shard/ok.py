"""Product re-identification with a proxy loss; training and retrieval are split over two processes."""
import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn

WORLD = 2
DIM = 24


def product_views(n_products, per_product, seed, mixing):
    g = torch.Generator().manual_seed(seed)
    style = torch.randn(n_products, 8, generator=g)
    views = style.repeat_interleave(per_product, 0)
    views = views + 0.35 * torch.randn(views.shape, generator=g)
    nuisance = torch.randn(len(views), 16, generator=g) * 0.7
    x = torch.tanh(torch.cat([views, nuisance], 1) @ mixing)
    return x, torch.arange(n_products).repeat_interleave(per_product)


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(DIM, 96), nn.ReLU(), nn.Linear(96, 32))

    def forward(self, x):
        return F.normalize(self.net(x), dim=1)


def gather(t):
    parts = [torch.empty_like(t) for _ in range(WORLD)]
    dist.all_gather(parts, t.contiguous())
    return torch.cat(parts)


def sync(params):
    for p in params:
        dist.all_reduce(p.grad)
        p.grad.div_(WORLD)


@torch.no_grad()
def recall_at_1(model, x, ids, rank):
    model.eval()
    mine = ids.div(len(ids.unique()) // WORLD, rounding_mode="floor") == rank
    x, ids = x[mine], ids[mine]
    query = torch.arange(len(ids)) % 2 == 0
    emb = model(x)
    gallery, gallery_ids = gather(emb[~query]), gather(ids[~query])
    nearest = (emb[query] @ gallery.T).argmax(1)
    hits = (gallery_ids[nearest] == ids[query]).float().sum()
    stats = torch.stack([hits, query.sum().float()])
    dist.all_reduce(stats)
    return (stats[0] / stats[1]).item()


def run(rank, store, epochs=12):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=WORLD)
    torch.set_num_threads(1)
    torch.manual_seed(7)
    mixing = torch.randn(DIM, DIM) / 5
    x, ids = product_views(100, 12, 1, mixing)
    xt, idt = product_views(600, 2, 2, mixing)
    mu, sd = x.mean(0), x.std(0)
    x, xt = (x - mu) / sd, (xt - mu) / sd
    model = Embedder()
    proxies = nn.Parameter(torch.randn(100, 32))
    params = [*model.parameters(), proxies]
    opt = torch.optim.Adam(params, lr=6e-3)
    for epoch in range(epochs):
        model.train()
        order = torch.randperm(len(x))
        for idx in order[rank::WORLD].split(30):
            logits = 12 * model(x[idx]) @ F.normalize(proxies, dim=1).T
            loss = F.cross_entropy(logits, ids[idx])
            opt.zero_grad()
            loss.backward()
            sync(params)
            opt.step()
        if epoch % 3 == 2:
            score = recall_at_1(model, xt, idt, rank)
            if rank == 0:
                print(f"epoch {epoch:2d} loss {loss.item():.3f} recall {score:.3f}", flush=True)
    score = recall_at_1(model, xt, idt, rank)
    if rank == 0:
        print(f"recall_at_1={score:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as tmp:
        mp.spawn(run, args=(os.path.join(tmp, "store"),), nprocs=WORLD)
