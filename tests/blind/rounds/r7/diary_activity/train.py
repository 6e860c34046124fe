"""Minute-level activity classification: accelerometer summaries joined with the wearer's diary."""
import csv
import sys
from bisect import bisect_right
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn

ACTIVITIES = ["rest", "desk", "walk", "run", "chores"]


def parse_utc(text):
    return datetime.strptime(text, "%Y-%m-%d %H:%M").replace(tzinfo=timezone.utc).timestamp()


def read_diary(path):
    with open(path, newline="") as fh:
        rows = sorted((parse_utc(r["start"]), r["activity"]) for r in csv.DictReader(fh))
    return [s for s, _ in rows], [ACTIVITIES.index(a) for _, a in rows]


def join(unix_s, starts, acts):
    pos = [bisect_right(starts, t) - 1 for t in unix_s]
    keep = np.array([p >= 0 for p in pos])
    return keep, np.array([acts[p] for p in pos if p >= 0])


def main(folder):
    torch.manual_seed(0)
    with np.load(folder / "sensor.npz") as z:
        unix_s, feats = z["unix_s"], z["features"].astype(np.float32)
    starts, acts = read_diary(folder / "diary.csv")
    keep, y = join(unix_s, starts, acts)
    x, t = feats[keep], unix_s[keep]
    day = (t - t[0]) // 86400
    is_val = day >= 4
    mean, std = x[~is_val].mean(0), x[~is_val].std(0)
    x = torch.from_numpy((x - mean) / std)
    y = torch.from_numpy(y)
    val = torch.from_numpy(is_val)
    xt, yt, xv, yv = x[~val], y[~val], x[val], y[val]
    print(f"train minutes {len(xt)}, validation minutes {len(xv)} (last days)")

    model = nn.Sequential(nn.Linear(x.shape[1], 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, len(ACTIVITIES)))
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    ce = nn.CrossEntropyLoss()
    for epoch in range(1, 9):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(xt)).split(64):
            loss = ce(model(xt[idx]), yt[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        model.eval()
        with torch.no_grad():
            logits = model(xv)
        acc = (logits.argmax(1) == yv).float().mean().item()
        print(f"epoch {epoch} train loss {total / len(xt):.4f} val loss {ce(logits, yv).item():.4f} val acc {acc:.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
