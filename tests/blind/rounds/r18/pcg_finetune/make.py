"""heart sounds (0.5 s cycles at 500 Hz) with three classes, and the checkpoint from which the training goes on"""
import json
import math
import numpy as np
import torch
from torch import nn

r = np.random.default_rng(63)
N, L = 1400, 250
t = np.arange(L) / 500


def burst(c, f, w, a):
    return a[:, None] * np.exp(-((t - c[:, None]) / w) ** 2) * np.sin(2 * np.pi * f[:, None] * (t - c[:, None]))


y = r.integers(0, 3, N)
s1, s2 = r.normal(0.06, 0.01, N), r.normal(0.30, 0.015, N)
x = burst(s1, r.normal(45, 5, N), 0.02, r.uniform(0.7, 1.2, N)) + burst(s2, r.normal(60, 6, N), 0.015, r.uniform(0.5, 1, N))
noise = np.cumsum(r.normal(0, 1, (N, L)), 1)
murmur = r.normal(0, 1, (N, L)) - 0.4 * np.roll(r.normal(0, 1, (N, L)), 1, 1)
sys_w = np.exp(-((t - ((s1 + s2) / 2)[:, None]) / 0.06) ** 2)
dia_w = np.exp(-((t - (s2 + 0.1)[:, None]) / 0.05) ** 2)
amp = r.uniform(0.12, 0.3, N)[:, None]
x += amp * murmur * (sys_w * (y == 1)[:, None] + dia_w * (y == 2)[:, None])
x += 0.01 * (noise - noise.mean(1, keepdims=True)) + 0.07 * r.normal(0, 1, (N, L))
x = (x / np.abs(x).max(1, keepdims=True)).astype("f4")

torch.manual_seed(90)
weights = {}
shape = [("conv1", (12, 1, 15)), ("conv2", (24, 12, 9)), ("conv3", (24, 24, 5))]
for name, s in shape:
    weights[f"{name}.weight"] = torch.randn(s) * math.sqrt(2 / (s[1] * s[2]))
    weights[f"{name}.bias"] = torch.zeros(s[0])
weights["fc.weight"] = torch.randn(3, 24 * 5) * 0.03
weights["fc.bias"] = torch.zeros(3)
params = [nn.Parameter(v.clone()) for v in weights.values()]
for side in ("bug", "ok"):
    lr = 2e-6 if side == "bug" else 2e-3
    opt = torch.optim.Adam(params, lr=lr)
    torch.save({"model": {k: v.clone() for k, v in weights.items()}, "optimizer": opt.state_dict(), "note": "pretrain_v3"}, f"{side}/start.pt")
    np.savez(f"{side}/cycles.npz", wave=x, label=y, test=np.arange(N) >= 1000)
    json.dump({"checkpoint": "start.pt", "epochs": 14, "batch": 50, "lr": 0.002, "classes": ["normal", "systolic murmur", "diastolic murmur"]}, open(f"{side}/finetune.json", "w"))
