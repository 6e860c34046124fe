"""Damping of spruce plates for instrument tops, from elastic data, tap spectra and year ring images.

Several plates are cut from one tree. The model is used on plates of trees that come to the workshop later.
"""
import copy
import zlib

import numpy as np
import torch
from torch import nn

ELASTIC = ["density_kg_m3", "modulus_along_GPa", "modulus_across_GPa", "moisture_pct"]
N_TAP, N_RING = 12, 12


def cut_trees(rng, first, n_trees, plates_per_tree=14):
    """Plates of `n_trees` trees: elastic data scatter within a tree, spectra and rings are typical of the tree."""
    plates = []
    for tree in range(first, first + n_trees):
        density, along, across = rng.normal(410, 35), rng.normal(11.5, 1.8), rng.normal(0.75, 0.16)
        taps, rings = rng.normal(size=N_TAP), rng.normal(size=N_RING)
        for k in range(plates_per_tree):
            moisture = rng.normal(8.0, 1.0)
            quality = 2.0 * (density - 410) / 35 - 2.2 * (along - 11.5) / 1.8 + 1.2 * np.tanh((across - 0.75) / 0.16)
            damping = 22 + 1.2 * quality + 0.9 * (moisture - 8.0) + 0.3 * rng.normal()
            elastic = [density + 14 * rng.normal(), along + 0.7 * rng.normal(), across + 0.06 * rng.normal(), moisture]
            plates.append({
                "tree": f"T{tree:03d}", "plate": f"T{tree:03d}-{k:02d}", "elastic": elastic,
                "tap": taps + 0.15 * rng.normal(size=N_TAP), "ring": rings + 0.15 * rng.normal(size=N_RING), "damping": damping,
            })
    return plates


def bucket(key):
    return zlib.crc32(key.encode()) % 4


def split(plates):
    val = [p for p in plates if bucket(p["tree"]) == 0]
    train = [p for p in plates if bucket(p["tree"]) != 0]
    return train, val


def tensors(plates, groups):
    x = np.array([np.concatenate([p[g] for g in groups]) for p in plates])
    y = np.array([p["damping"] for p in plates])
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)


class Damping(nn.Module):
    """Network with the scaling of its inputs and output inside."""

    def __init__(self, x, y, hidden, dropout):
        super().__init__()
        self.register_buffer("x_mean", x.mean(0))
        self.register_buffer("x_std", x.std(0))
        self.register_buffer("y_mean", y.mean())
        self.register_buffer("y_std", y.std())
        self.net = nn.Sequential(nn.Linear(x.shape[1], hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, hidden), nn.ReLU(),
                                 nn.Linear(hidden, 1))

    def forward(self, x):
        return self.net((x - self.x_mean) / self.x_std)[:, 0] * self.y_std + self.y_mean


def fit(train, val, groups, hidden, dropout, decay, epochs=30, batch=32, lr=2e-3):
    torch.manual_seed(12)
    x, y = tensors(train, groups)
    x_val, y_val = tensors(val, groups)
    model = Damping(x, y, hidden, dropout)
    opt = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=decay)
    best, state = float("inf"), None
    for epoch in range(epochs):
        model.train()
        for rows in torch.randperm(len(x)).split(batch):
            loss = ((model(x[rows]) - y[rows]) / model.y_std).square().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        model.eval()
        with torch.no_grad():
            mae = (model(x_val) - y_val).abs().mean().item()
        if mae < best:
            best, state = mae, copy.deepcopy(model.state_dict())
    model.load_state_dict(state)
    plain = (y_val - model.y_mean).abs().mean().item()
    return model.eval(), best, plain


def main():
    rng = np.random.default_rng(55)
    plates = cut_trees(rng, 1, 64)
    train, val = split(plates)
    print(f"{len(train)} plates for training, {len(val)} for validation")
    trials = [
        (("elastic",), 16, 0.0, 1e-2),
        (("elastic", "tap"), 24, 0.1, 1e-2),
        (("elastic", "ring"), 24, 0.1, 1e-2),
        (("elastic", "tap", "ring"), 48, 0.0, 1e-3),
    ]
    chosen = None
    for groups, hidden, dropout, decay in trials:
        model, mae, plain = fit(train, val, groups, hidden, dropout, decay)
        print(f"{'+'.join(groups):18s} hidden {hidden:2d}  val MAE {mae:.3f} x 1e-3 (mean guess {plain:.3f})")
        if chosen is None or mae < chosen[2]:
            chosen = (model, groups, mae)
    print(f"chosen: {'+'.join(chosen[1])}, val MAE {chosen[2]:.3f}")
    return chosen


if __name__ == "__main__":
    main()
