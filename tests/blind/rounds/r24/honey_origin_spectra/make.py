"""Writes bug/ and ok/ beside this file."""
import csv
import json
from pathlib import Path

import numpy as np
import torch
from torch import nn

ORIGINS = ["acacia", "chestnut", "linden", "rape", "heather", "fir_honeydew"]
BANDS, HIDDEN, LATENT = 80, 96, 12
here = Path(__file__).resolve().parent
rng = np.random.default_rng(77)
nm = np.linspace(1100, 2300, BANDS)


def gauss(c, w):
    return np.exp(-((nm - c) / w) ** 2)


PARTS = np.stack([gauss(c, w) for c, w in [(1190, 40), (1450, 60), (1580, 45), (1690, 35), (1780, 40), (1940, 60),
                                           (2060, 40), (2100, 35), (2180, 40), (2270, 35)]])
CENTRES = rng.normal(0, 0.5, (len(ORIGINS), len(PARTS)))


def samples(n):
    y = rng.integers(0, len(ORIGINS), n)
    conc = 1.5 + CENTRES[y] + rng.normal(0, 0.33, (n, len(PARTS)))
    conc[:, 1] += rng.normal(0, 1.0, n)          # water
    x = np.tanh(0.35 * conc) @ PARTS
    x = x * rng.lognormal(0, 0.15, (n, 1)) + rng.normal(0, 0.5, (n, 1)) + rng.normal(0, 0.6, (n, 1)) * np.linspace(-1, 1, BANDS)
    x += rng.normal(0, 0.10, x.shape)
    return x.astype(np.float32), y


xu, yu = samples(12000)
mean, std = torch.from_numpy(xu.mean(0)), torch.from_numpy(xu.std(0))
z = (torch.from_numpy(xu) - mean) / std
torch.manual_seed(0)
enc = nn.Sequential(nn.Linear(BANDS, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, LATENT))
dec = nn.Sequential(nn.Linear(LATENT, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, BANDS))
aux = nn.Linear(LATENT, len(ORIGINS))            # declared origin on the label, 35 % wrong
decl = torch.from_numpy(np.where(rng.random(len(yu)) < 0.35, rng.integers(0, 6, len(yu)), yu))
opt = torch.optim.Adam([*enc.parameters(), *dec.parameters(), *aux.parameters()], lr=2e-3)
for ep in range(12):
    for idx in torch.randperm(len(z)).split(128):
        h = enc(z[idx] * (torch.rand(len(idx), BANDS) > 0.15))
        loss = ((dec(h) - z[idx]) ** 2).mean() + 0.5 * nn.functional.cross_entropy(aux(h), decl[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
full = {f"encoder.net.{k}": v for k, v in enc.state_dict().items()}
full.update({f"decoder.{k}": v for k, v in dec.state_dict().items()})

train, valid = samples(150), samples(700)
conf = dict(origins=ORIGINS, hidden=HIDDEN, latent=LATENT, epochs=60, batch=16, lr_encoder=5e-5, lr_head=1e-2, seed=4)
for side in ("bug", "ok"):
    out = here / side
    out.mkdir(exist_ok=True)
    pre = "module." if side == "bug" else ""
    torch.save({"model": {pre + k: v for k, v in full.items()}, "mean": mean, "std": std, "epoch": 12}, out / "encoder.pt")
    (out / "finetune.json").write_text(json.dumps(conf, indent=1))
    for name, (x, y) in (("pollen_train", train), ("pollen_valid", valid)):
        with open(out / f"{name}.csv", "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(["sample", "origin"] + [f"nm_{v:.0f}" for v in nm])
            for i, (a, b) in enumerate(zip(x, y)):
                w.writerow([f"H{i:05d}", ORIGINS[b]] + [f"{v:.4f}" for v in a])
