"""Neural collaborative filtering on clicks; negatives are drawn per FOLDER/config.json."""
import json
import sys
from pathlib import Path
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F


class NCF(nn.Module):
    def __init__(self, n_users, n_items, dim):
        super().__init__()
        self.user, self.item = nn.Embedding(n_users, dim), nn.Embedding(n_items, dim)
        self.mlp = nn.Sequential(nn.Linear(2 * dim, 32), nn.ReLU(), nn.Linear(32, 1))
        for table in (self.user, self.item):
            nn.init.normal_(table.weight, std=0.1)

    def forward(self, u, i):
        eu, ei = self.user(u), self.item(i)
        return self.mlp(torch.cat([eu, ei], 1)).squeeze(1) + (eu * ei).sum(1)


def with_negatives(clicks, clicked, n_items, ratio):
    """every click plus `ratio` unclicked items of the same user"""
    users = clicks[:, 0].repeat_interleave(ratio)
    items = torch.randint(n_items, users.shape)
    keep = ~clicked[users, items]
    u = torch.cat([clicks[:, 0], users[keep]])
    i = torch.cat([clicks[:, 1], items[keep]])
    target = torch.cat([torch.ones(len(clicks)), torch.zeros(int(keep.sum()))])
    return u, i, target


def main():
    folder = Path(sys.argv[1])
    cfg = json.loads((folder / "config.json").read_text())
    torch.manual_seed(cfg["seed"])
    data = np.load(folder / "clicks.npz")
    train, held_out = torch.tensor(data["train"]).long(), torch.tensor(data["held_out"]).long()
    n_users, n_items = int(data["n_users"]), int(data["n_items"])
    clicked = torch.zeros(n_users, n_items, dtype=torch.bool)
    clicked[train[:, 0], train[:, 1]] = True
    model = NCF(n_users, n_items, cfg["dim"])
    optimizer = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
    for epoch in range(cfg["epochs"]):
        model.train()
        u, i, target = with_negatives(train, clicked, n_items, cfg["negatives_per_click"])
        total = 0.0
        for idx in torch.randperm(len(u)).split(cfg["batch_size"]):
            loss = F.binary_cross_entropy_with_logits(model(u[idx], i[idx]), target[idx])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(idx)
        model.eval()
        with torch.no_grad():
            grid_u = torch.arange(n_users).repeat_interleave(n_items)
            grid_i = torch.arange(n_items).repeat(n_users)
            scores = model(grid_u, grid_i).view(n_users, n_items).masked_fill(clicked, float("-inf"))
            rank = (scores > scores[held_out[:, 0], held_out[:, 1]][:, None]).sum(1)
        if epoch % 2 == 1:
            print(f"epoch {epoch:2d} loss {total / len(u):.4f} val HR@10 {(rank < 10).float().mean():.3f} mean rank {rank.float().mean():.1f}")


if __name__ == "__main__":
    main()
