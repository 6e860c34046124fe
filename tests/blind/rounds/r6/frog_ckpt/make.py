"""Pretrain the encoder on noisy tonal strips and export it; write the labelled clips."""
import os
import numpy as np
import torch
from torch import nn
from train import Encoder, MELS, FRAMES

def clips(n, n_cls, rng, off=0.0):
    f = np.arange(MELS)[:, None]; t = np.arange(FRAMES)
    y = rng.integers(0, n_cls, n); x = np.zeros((n, MELS, FRAMES), np.float32)
    for i in range(n):
        c, rate = divmod(y[i], 2)
        pitch = 3 + (MELS - 5) * (c + off) / max(1, n_cls // 2) + rng.normal(0, .35)
        am = .5 + .5 * np.sin(2 * np.pi * t * (0.1 if rate == 0 else 0.32) + rng.uniform(0, 6.28))
        x[i] = 1.3 * np.exp(-.5 * ((f - pitch) / .9) ** 2) * am + rng.normal(0, .55, (MELS, FRAMES))
    return x, y.astype(np.int64)

rng = np.random.default_rng(0); torch.manual_seed(0)
px, py = clips(2500, 10, rng)
px, py = torch.from_numpy(px), torch.from_numpy(py)
enc = Encoder(); head = nn.Linear(enc.dim, 10)
opt = torch.optim.Adam([*enc.parameters(), *head.parameters()], lr=3e-3)
for ep in range(6):
    for idx in torch.randperm(len(px)).split(50):
        l = nn.functional.cross_entropy(head(enc(px[idx])), py[idx]); opt.zero_grad(); l.backward(); opt.step()
    print("pretrain", ep, round(l.item(), 3))
state = enc.state_dict()
x, y = clips(320, 8, rng, off=0.4)
for folder in ("bug", "ok"):
    os.makedirs(folder, exist_ok=True)
    np.savez_compressed(f"{folder}/clips.npz", spec=np.clip((x * 8 + 16).round(), 0, 31).astype(np.uint8), label=y)
    pre = "module.encoder." if folder == "bug" else ""
    torch.save({"epoch": 6, "encoder": {pre + k: v for k, v in state.items()}}, f"{folder}/encoder.pt")
