"""Broken wire detection on gondola haul ropes from magnetic rope test segments.

Each row is one 2 m segment: summary numbers of the leakage flux channels, the rope age and the sheave counts.
The label is the visual inspection (wire break found or not); breaks are rare.
"""
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

FEATURES = ["flux_peak", "flux_rms", "flux_kurtosis", "hall_asymmetry", "lma_percent", "lay_length_mm",
            "rope_temp_c", "rope_speed_ms", "tension_kn", "age_days", "bend_cycles_k", "grease_index",
            "saddle_distance_m", "strand_noise", "coil_offset", "humidity_pct", "wind_ms", "cabin_load_kg",
            "tower_no", "pass_no"]


@dataclass
class Config:
    segments: int = 1200
    val_share: float = 0.3
    copies: int = 7
    hidden: int = 128
    epochs: int = 45
    batch_size: int = 32
    lr: float = 3e-4
    seed: int = 14


def inspect_rope(n, rng):
    x = rng.normal(0, 1, (n, len(FEATURES)))
    x[:, 0] = np.abs(x[:, 0]) ** 1.3
    x[:, 2] = 0.6 * x[:, 0] + 0.8 * x[:, 2]
    x[:, 10] = 0.7 * x[:, 9] + 0.7 * x[:, 10]
    fatigue = 0.9 * x[:, 10] - 0.6 * x[:, 11] + 0.5 * x[:, 8]
    signal = 1.1 * x[:, 0] + 0.7 * x[:, 2] + 0.8 * x[:, 4] + 0.5 * x[:, 0] * (x[:, 3] > 0)
    logit = -5.8 + 1.2 * (signal + fatigue)
    y = rng.random(n) < 1 / (1 + np.exp(-logit))
    return x.astype(np.float32), y.astype(np.float32)


def with_more_breaks(rows, y, copies):
    rare = rows[y[rows] == 1]
    return np.concatenate([rows, np.repeat(rare, copies - 1)])


def average_precision(score, y):
    order = np.argsort(-score, kind="stable")
    hits = y[order]
    precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    return float((precision * hits).sum() / hits.sum())


def split_rows(y, cfg, rng):
    rows = with_more_breaks(np.arange(len(y)), y, cfg.copies)
    rows = rng.permutation(rows)
    n_val = int(cfg.val_share * len(rows))
    val_rows, train_rows = rows[:n_val], rows[n_val:]
    return train_rows, val_rows


def build_net(cfg):
    h = cfg.hidden
    return nn.Sequential(nn.Linear(len(FEATURES), h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, 1))


def fit(cfg):
    rng = np.random.default_rng(cfg.seed)
    torch.manual_seed(cfg.seed)
    x, y = inspect_rope(cfg.segments, rng)
    train_rows, val_rows = split_rows(y, cfg, rng)
    mean, std = x[train_rows].mean(0), x[train_rows].std(0)
    z = torch.from_numpy((x - mean) / std)
    t = torch.from_numpy(y)
    print(f"{len(train_rows)} training rows ({y[train_rows].mean():.1%} breaks), {len(val_rows)} validation rows")

    net = build_net(cfg)
    opt = torch.optim.Adam(net.parameters(), lr=cfg.lr)
    best_ap, best_state, best_epoch = -1.0, None, 0
    for epoch in range(1, cfg.epochs + 1):
        net.train()
        shuffled = torch.from_numpy(rng.permutation(train_rows))
        total = 0.0
        for rows in shuffled.split(cfg.batch_size):
            loss = nn.functional.binary_cross_entropy_with_logits(net(z[rows]).squeeze(1), t[rows])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(rows)
        net.eval()
        with torch.no_grad():
            score = net(z[val_rows]).squeeze(1).numpy()
        ap = average_precision(score, y[val_rows])
        if ap > best_ap:
            best_ap, best_epoch = ap, epoch
            best_state = {k: v.clone() for k, v in net.state_dict().items()}
        if epoch % 5 == 0:
            print(f"epoch {epoch:2d}  loss {total / len(train_rows):.4f}  val average precision {ap:.3f}")
    net.load_state_dict(best_state)
    print(f"kept epoch {best_epoch} with validation average precision {best_ap:.3f}")
    return net, mean, std


if __name__ == "__main__":
    fit(Config())
