"""Pretrains the shot encoder on a larger league and writes encoder.pt, then the small target-league files."""
import os
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F
torch.manual_seed(6)
rng = np.random.default_rng(6)


def shots(n):
    x = 120 - rng.gamma(2.5, 6, n).clip(1, 45)
    y = 40 + rng.normal(0, 11, n).clip(-30, 30)
    head = rng.random(n) < .18
    press = rng.random(n)
    keeper = rng.normal(0, 1, n)
    speed = rng.gamma(3, 2, n)
    dist = np.hypot(120 - x, y - 40)
    ang = np.arctan2(7.32 * (120 - x), (120 - x) ** 2 + (y - 40) ** 2 - 13.4)
    ang = np.where(ang < 0, ang + np.pi, ang)
    z = 0.8 - .13 * dist + 1.5 * ang - 1.0 * head - 1.6 * press + .6 * np.abs(keeper) * (dist > 12) + .08 * speed
    goal = (rng.random(n) < 1 / (1 + np.exp(-z))).astype(np.float32)
    return np.stack([x, y, head, press, keeper, speed], 1).astype(np.float32), goal


mean = np.array([105, 40, .18, .5, 0, 6], dtype=np.float32)
std = np.array([9, 11, .38, .29, 1, 3.5], dtype=np.float32)
enc = nn.Sequential(nn.Linear(6, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 8), nn.Tanh())
head = nn.Linear(8, 1)
X, g = shots(40000)
X, g = torch.tensor((X - mean) / std), torch.tensor(g)
opt = torch.optim.Adam(list(enc.parameters()) + list(head.parameters()), 2e-3)
for ep in range(8):
    for i in torch.randperm(len(g)).split(256):
        loss = F.binary_cross_entropy_with_logits(head(enc(X[i])).squeeze(1), g[i])
        opt.zero_grad(); loss.backward(); opt.step()
print("pretrain loss", loss.item())
tx, ty = shots(2400)
for folder in ("bug", "ok"):
    os.makedirs(folder, exist_ok=True)
    np.savez(f"{folder}/shots.npz", x=tx[:1600], goal=ty[:1600], x_test=tx[1600:], goal_test=ty[1600:], mean=mean, std=std)
    pre = "module." if folder == "bug" else ""
    torch.save({pre + k: v for k, v in enc.state_dict().items()}, f"{folder}/encoder.pt")
