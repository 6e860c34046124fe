"""Pretrain the wingbeat encoder on museum recordings and write the small field data set."""
import json
import os

import numpy as np
import torch
from torch import nn

RATE = 8000
MUSEUM = [(f0, r) for f0 in (120, 180, 260, 340, 430, 520, 610, 700) for r in (0.35, 0.8)]
FIELD = {"culex_f": (390, 0.55), "culex_m": (560, 0.5), "aedes_f": (480, 0.75), "anopheles_f": (400, 0.95),
         "hoverfly": (155, 0.6)}


def record(f0, ratio, rng, n=400):
    t = np.arange(n) / RATE
    f = f0 * rng.normal(1.0, 0.035)
    x = np.zeros(n)
    for k in range(1, 6):
        x += ratio ** (k - 1) * rng.uniform(0.75, 1.25) * np.sin(2 * np.pi * k * f * t + rng.uniform(0, 6.28))
    x += rng.normal(0, 0.45, n)
    return (x / x.std()).astype(np.float32)


def encoder():
    return nn.Sequential(
        nn.Conv1d(1, 24, 25, stride=2, padding=12), nn.ReLU(),
        nn.Conv1d(24, 32, 9, stride=2, padding=4), nn.ReLU(),
        nn.Conv1d(32, 48, 7, stride=2, padding=3), nn.ReLU(),
        nn.Conv1d(48, 64, 5, padding=2), nn.ReLU(),
        nn.AdaptiveAvgPool1d(1), nn.Flatten(),
    )


def pretrain(x, y, decays):
    torch.manual_seed(12)
    enc, head = encoder(), nn.Linear(64, len(MUSEUM))
    opt = torch.optim.Adam(list(enc.parameters()) + list(head.parameters()), lr=2e-3)
    shadow = {d: {k: torch.zeros_like(v) for k, v in enc.state_dict().items()} for d in decays}
    steps = 0
    for _ in range(10):
        for idx in torch.randperm(len(x)).split(64):
            loss = nn.functional.cross_entropy(head(enc(x[idx])), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            steps += 1
            for d in decays:
                for k, v in enc.state_dict().items():
                    shadow[d][k].mul_(d).add_(v, alpha=1 - d)
    print("pretraining: last loss", round(loss.item(), 3), "steps", steps)
    return shadow, steps


def main():
    rng = np.random.default_rng(8)
    kinds = rng.integers(0, len(MUSEUM), 2400)
    x = torch.from_numpy(np.stack([record(*MUSEUM[k], rng) for k in kinds])).unsqueeze(1)
    decay = {"ok": 0.98, "bug": 0.9999}
    shadow, steps = pretrain(x, torch.from_numpy(kinds), list(decay.values()))

    names = list(FIELD)
    labels = rng.integers(0, len(names), 650)
    waves = np.stack([record(*FIELD[names[k]], rng) for k in labels])
    for side in ("bug", "ok"):
        os.makedirs(side, exist_ok=True)
        np.savez(os.path.join(side, "field_2024.npz"), wave=waves, label=labels,
                 is_val=np.arange(650) >= 150)
        torch.save({"step": steps, "rate_hz": RATE, "encoder": shadow[decay[side]]},
                   os.path.join(side, "wingbeat_encoder.pt"))
        with open(os.path.join(side, "config.json"), "w") as f:
            json.dump({"species": names, "encoder": "wingbeat_encoder.pt", "head_lr": 0.01, "epochs": 30,
                       "batch_size": 16, "weight_decay": 0.0001}, f, indent=1)


if __name__ == "__main__":
    main()
