"""Tip sway of guyed lattice masts from the panel point and member lists (message passing network)."""
import csv
import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn


def read(path):
    with open(path, newline="") as f:
        return list(csv.DictReader(f))


def load_masts(folder):
    sway = {r["mast"]: float(r["tip_sway_mm"]) for r in read(folder / "survey.csv")}
    points, members = {}, {}
    for r in read(folder / "panel_points.csv"):
        points.setdefault(r["mast"], []).append([float(r["height_m"]), float(r["guy_kN_per_cm"]), float(r["wind_kN"])])
    for r in read(folder / "members.csv"):
        members.setdefault(r["mast"], []).append((int(r["from"]), int(r["to"]), float(r["stiffness_kN_per_cm"])))
    missing = set(points) ^ set(sway)
    if missing:
        raise ValueError(f"masts without a partner in the survey: {sorted(missing)[:5]}")
    masts = []
    for name in sorted(points):
        x = torch.tensor(points[name])
        a, b, k = zip(*members[name])
        src, dst = torch.tensor(a + b), torch.tensor(b + a)
        masts.append((x, src, dst, torch.tensor(k + k), sway[name]))
    return masts


def collate(masts):
    xs, srcs, dsts, ks, tips, owner, y = [], [], [], [], [], [], []
    start = 0
    for g, (x, src, dst, k, target) in enumerate(masts):
        xs.append(x)
        srcs.append(src + start)
        dsts.append(dst + start)
        ks.append(k)
        owner.append(torch.full((len(x),), g))
        start += len(x)
        tips.append(start - 1)
        y.append(target)
    return (torch.cat(xs), torch.cat(srcs), torch.cat(dsts), torch.cat(ks)[:, None], torch.cat(owner),
            torch.tensor(tips), torch.tensor(y))


class MastNet(nn.Module):
    def __init__(self, hidden, rounds):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(3, hidden), nn.ReLU(), nn.Linear(hidden, hidden))
        self.message = nn.ModuleList(nn.Sequential(nn.Linear(2 * hidden + 1, hidden), nn.ReLU(), nn.Linear(hidden, hidden))
                                     for _ in range(rounds))
        self.norm = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(rounds))
        self.head = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, x, src, dst, k, owner, tip):
        h = self.embed(x)
        for message, norm in zip(self.message, self.norm):
            m = message(torch.cat([h[src], h[dst], k], 1))
            h = norm(h + torch.zeros_like(h).index_add(0, dst, m))
        pooled = torch.zeros(len(tip), h.shape[1]).index_add(0, owner, h)
        pooled = pooled / torch.bincount(owner)[:, None]
        return self.head(torch.cat([h[tip], pooled], 1))[:, 0]


def main(folder):
    cfg = json.loads((folder / "config.json").read_text())
    torch.manual_seed(cfg["seed"])
    rng = np.random.default_rng(cfg["seed"])
    masts = load_masts(folder)
    order = rng.permutation(len(masts))
    val = [masts[i] for i in order[:cfg["val_masts"]]]
    train = [masts[i] for i in order[cfg["val_masts"]:]]

    x_all = torch.cat([m[0] for m in train])
    k_all = torch.cat([m[3] for m in train])
    y_all = torch.tensor([m[4] for m in train]).log()
    x_mean, x_std = x_all.mean(0), x_all.std(0)
    k_mean, k_std, y_mean, y_std = k_all.mean(), k_all.std(), y_all.mean(), y_all.std()

    def prepare(part):
        x, src, dst, k, owner, tip, y = collate(part)
        return (x - x_mean) / x_std, src, dst, (k - k_mean) / k_std, owner, tip, (y.log() - y_mean) / y_std

    model = MastNet(cfg["hidden"], cfg["rounds"])
    opt = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
    steps = cfg["epochs"] * (len(train) // cfg["batch"])
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(opt, steps)
    val_batch = prepare(val)
    truth = torch.tensor([m[4] for m in val])
    baseline = (truth - torch.tensor([m[4] for m in train]).median()).abs().mean().item()
    for epoch in range(cfg["epochs"]):
        model.train()
        perm = rng.permutation(len(train))
        total = 0.0
        for s in range(0, len(train) - cfg["batch"] + 1, cfg["batch"]):
            *inputs, y = prepare([train[i] for i in perm[s:s + cfg["batch"]]])
            loss = nn.functional.smooth_l1_loss(model(*inputs), y)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            schedule.step()
            total += loss.item()
        if epoch % 5 == 4:
            model.eval()
            with torch.no_grad():
                sway = (model(*val_batch[:-1]) * y_std + y_mean).exp()
            mae = (sway - truth).abs().mean().item()
            print(f"epoch {epoch + 1:3d}  train loss {total / (len(train) // cfg['batch']):.4f}  val MAE {mae:.2f} mm (median guess {baseline:.2f})")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
