"""User side of a two-tower recommender. The item tower comes from pre-training and stays fixed;
user vectors and item popularity biases are learned from clicks with sampled softmax."""
import csv
import json
import sys
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F


class ItemTower(nn.Module):
    def __init__(self, n_items, dim):
        super().__init__()
        self.emb = nn.Embedding(n_items, dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, i):
        return self.proj(self.emb(i))


class Recommender(nn.Module):
    def __init__(self, n_users, n_items, dim):
        super().__init__()
        self.item_tower = ItemTower(n_items, dim)
        self.user = nn.Embedding(n_users, dim)
        self.bias = nn.Embedding(n_items, 1)
        nn.init.normal_(self.user.weight, std=0.05)
        nn.init.zeros_(self.bias.weight)

    def forward(self, u, items):
        vec = self.item_tower(items)                                   # (b, m, d)
        return (self.user(u).unsqueeze(1) * vec).sum(-1) + self.bias(items).squeeze(-1)


def read_pairs(path):
    with open(path, newline="") as f:
        return torch.tensor([[int(r["user"]), int(r["item"])] for r in csv.DictReader(f)])


@torch.no_grad()
def recall(model, seen, holdout, k):
    model.eval()
    n_users, n_items = seen.shape
    items = torch.arange(n_items).expand(n_users, -1)
    scores = model(torch.arange(n_users), items).masked_fill(seen, float("-inf"))
    top = scores.topk(k, dim=1).indices[holdout[:, 0]]
    return (top == holdout[:, 1:2]).any(1).float().mean().item()


def main(folder):
    folder = Path(folder)
    cfg = json.loads((folder / "config.json").read_text())
    torch.manual_seed(cfg["seed"])
    clicks, holdout = read_pairs(folder / "clicks.csv"), read_pairs(folder / "holdout.csv")
    seen = torch.zeros(cfg["n_users"], cfg["n_items"], dtype=torch.bool)
    seen[clicks[:, 0], clicks[:, 1]] = True

    model = Recommender(cfg["n_users"], cfg["n_items"], cfg["dim"])
    pretrained = torch.load(folder / "item_tower.pt", weights_only=True)
    model.load_state_dict(pretrained, strict=False)       # user side is not part of the checkpoint
    model.item_tower.requires_grad_(False)
    opt = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=cfg["lr"])

    print(f"{len(clicks)} clicks, {len(holdout)} held out, start recall {recall(model, seen, holdout, cfg['k']):.4f}")
    for epoch in range(1, cfg["epochs"] + 1):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(clicks)).split(cfg["batch_size"]):
            u, pos = clicks[idx, 0], clicks[idx, 1:2]
            neg = torch.randint(0, cfg["n_items"], (len(idx), cfg["negatives"]))
            scores = model(u, torch.cat([pos, neg], 1))
            loss = F.cross_entropy(scores, torch.zeros(len(idx), dtype=torch.long))
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        if epoch % 2 == 0:
            print(f"epoch {epoch:2d}  loss {total / len(clicks):.4f}  "
                  f"recall@{cfg['k']} {recall(model, seen, holdout, cfg['k']):.4f}")


if __name__ == "__main__":
    main(sys.argv[1])
