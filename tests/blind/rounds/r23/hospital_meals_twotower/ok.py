"""Two-tower retrieval model for ward menus: which dish will a patient order next?"""
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    n_patients: int = 800
    n_dishes: int = 250
    n_diets: int = 6
    n_wards: int = 8
    orders: int = 14
    dim: int = 24
    batch: int = 256
    lr: float = 2e-3
    weight_decay: float = 1e-2
    epochs: int = 6
    k: int = 10
    seed: int = 7


def simulate(cfg):
    """Order history: diet and ward shape the taste, some dishes are on the menu far more often."""
    rng = np.random.default_rng(cfg.seed)
    diet = rng.integers(cfg.n_diets, size=cfg.n_patients)
    ward = rng.integers(cfg.n_wards, size=cfg.n_patients)
    age = rng.normal(62, 16, cfg.n_patients).clip(18, 97)
    diet_vec = rng.normal(size=(cfg.n_diets, 8))
    ward_vec = rng.normal(size=(cfg.n_wards, 8)) * 0.5
    taste = diet_vec[diet] + ward_vec[ward] + 0.5 * rng.normal(size=(cfg.n_patients, 8))
    taste[:, 0] += (age - 62) / 20
    dish = rng.normal(size=(cfg.n_dishes, 8))
    menu = -0.9 * np.log(1 + rng.permutation(cfg.n_dishes))
    logits = 0.6 * taste @ dish.T + menu
    noise = rng.gumbel(size=logits.shape)
    order = np.argsort(-(logits + noise), axis=1)[:, :cfg.orders]
    order = rng.permuted(order, axis=1)
    feats = np.stack([diet, ward], 1)
    return feats, ((age - age.mean()) / age.std()).astype(np.float32), order


class PatientTower(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.diet = nn.Embedding(cfg.n_diets, 8)
        self.ward = nn.Embedding(cfg.n_wards, 8)
        self.pid = nn.Embedding(cfg.n_patients, 8)
        self.mlp = nn.Sequential(nn.Linear(25, 48), nn.ReLU(), nn.Linear(48, cfg.dim))
        nn.init.normal_(self.pid.weight, std=0.05)

    def forward(self, pid, feats, age):
        x = torch.cat([self.diet(feats[:, 0]), self.ward(feats[:, 1]), self.pid(pid), age[:, None]], 1)
        return self.mlp(x)


class DishTower(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.emb = nn.Embedding(cfg.n_dishes, cfg.dim)
        self.bias = nn.Embedding(cfg.n_dishes, 1)
        nn.init.normal_(self.emb.weight, std=0.1)
        nn.init.zeros_(self.bias.weight)

    def forward(self, dish):
        return self.emb(dish), self.bias(dish).squeeze(1)


def batch_loss(p, d, bias, dish, log_q):
    """Sampled softmax over the dishes of the batch, corrected for how often a dish gets sampled."""
    logits = p @ d.T + bias - log_q[dish]
    dup = dish[None, :] == dish[:, None]
    dup.fill_diagonal_(False)
    logits = logits.masked_fill(dup, -1e9)
    return F.cross_entropy(logits, torch.arange(len(dish)))


@torch.no_grad()
def recall(patients, dishes, feats, age, seen, held, k):
    patients.eval(), dishes.eval()
    p = patients(torch.arange(len(feats)), feats, age)
    d, b = dishes(torch.arange(dishes.emb.num_embeddings))
    score = p @ d.T + b
    score.scatter_(1, seen, -1e9)
    top = score.topk(k, dim=1).indices
    hit = (top[:, :, None] == held[:, None, :]).any(1).float()
    return hit.mean().item()


def main(cfg=Config()):
    torch.manual_seed(cfg.seed)
    feats, age, order = simulate(cfg)
    feats, age, order = torch.from_numpy(feats), torch.from_numpy(age), torch.from_numpy(order)
    seen, held = order[:, :-4], order[:, -4:]
    pid = torch.arange(cfg.n_patients).repeat_interleave(seen.shape[1])
    dish = seen.reshape(-1)
    freq = torch.bincount(dish, minlength=cfg.n_dishes).float() + 1
    log_q = (freq / freq.sum()).log()

    patients, dishes = PatientTower(cfg), DishTower(cfg)
    opt = torch.optim.AdamW([*patients.parameters(), *dishes.parameters()], lr=cfg.lr, weight_decay=cfg.weight_decay)
    for epoch in range(cfg.epochs):
        patients.train(), dishes.train()
        total = 0.0
        for idx in torch.randperm(len(pid)).split(cfg.batch):
            p = patients(pid[idx], feats[pid[idx]], age[pid[idx]])
            d, b = dishes(dish[idx])
            loss = batch_loss(p, d, b, dish[idx], log_q)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        if epoch % 2 == 1:
            r = recall(patients, dishes, feats, age, seen, held, cfg.k)
            print(f"epoch {epoch + 1:2d}  loss {total / len(pid):.4f}  recall@{cfg.k} {r:.4f}")


if __name__ == "__main__":
    main()
