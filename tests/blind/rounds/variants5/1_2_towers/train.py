import json
import os
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Tower(nn.Module):
    def __init__(self, d_in, d_hidden, d_out):
        super().__init__()
        self.fc1 = nn.Linear(d_in, d_hidden)
        self.norm = nn.LayerNorm(d_hidden)
        self.fc2 = nn.Linear(d_hidden, d_out)

    def forward(self, x):
        return F.normalize(self.fc2(F.gelu(self.norm(self.fc1(x)))), dim=-1)


class TwoTower(nn.Module):
    def __init__(self, d_query, d_item, cfg):
        super().__init__()
        self.query = Tower(d_query, cfg["hidden"], cfg["embed_dim"])
        self.item = Tower(d_item, cfg["hidden"], cfg["embed_dim"])
        self.temperature = cfg["temperature"]

    def loss(self, q, p):
        logits = self.query(q) @ self.item(p).t() / self.temperature
        target = torch.arange(len(q))
        return 0.5 * (F.cross_entropy(logits, target) + F.cross_entropy(logits.t(), target))

    @torch.no_grad()
    def recall(self, q, p, k):
        self.eval()
        top = (self.query(q) @ self.item(p).t()).topk(k, dim=1).indices
        hit = (top == torch.arange(len(q))[:, None]).any(1).float().mean().item()
        self.train()
        return hit


def standardize(train, other):
    mu, sd = train.mean(0), train.std(0) + 1e-6
    return [torch.from_numpy(((a - mu) / sd).astype(np.float32)) for a in (train, *other)]


def run(folder):
    with open(os.path.join(folder, "params.json")) as fh:
        cfg = json.load(fh)
    torch.manual_seed(cfg["seed"])
    gen = torch.Generator().manual_seed(cfg["seed"])
    raw = np.load(os.path.join(folder, "pairs.npz"))
    split = raw["split"]
    q_tr, q_va, q_te = standardize(raw["query"][split == 0], [raw["query"][split == s] for s in (1, 2)])
    p_tr, p_va, p_te = standardize(raw["product"][split == 0], [raw["product"][split == s] for s in (1, 2)])

    model = TwoTower(q_tr.shape[1], p_tr.shape[1], cfg)
    opt = torch.optim.SGD(model.parameters(), lr=cfg["lr"], momentum=cfg["momentum"])
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, cfg["epochs"])
    size = cfg["batch_size"]
    for epoch in range(cfg["epochs"]):
        perm = torch.randperm(len(q_tr), generator=gen)
        losses = []
        for start in range(0, len(perm) - size + 1, size):
            rows = perm[start:start + size]
            loss = model.loss(q_tr[rows], p_tr[rows])
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            losses.append(loss.item())
        sched.step()
        if (epoch + 1) % 10 == 0:
            print("epoch", epoch + 1, "loss %.4f" % np.mean(losses), "valid r@5 %.3f" % model.recall(q_va, p_va, 5))
    print("test recall@1 %.4f  recall@5 %.4f" % (model.recall(q_te, p_te, 1), model.recall(q_te, p_te, 5)))


if __name__ == "__main__":
    run(sys.argv[1])
