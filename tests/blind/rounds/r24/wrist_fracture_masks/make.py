"""Radiographs and run-length masks.  In bug/ clinic B's masks were re-exported by a tool that counts down the columns."""
import json
from pathlib import Path

import numpy as np

here = Path(__file__).resolve().parent
rng = np.random.default_rng(64)
S = 40
yy, xx = np.mgrid[:S, :S].astype(float)


def film():
    lean, cx = rng.normal(0, 0.08), rng.uniform(12, 18)
    img = 40 + 15 * np.exp(-((xx - 21) / 14) ** 2)
    radius_c = cx + lean * (yy - 20)
    radius_w = 4.5 + 2.0 * np.clip((yy - 18) / 15, 0, 1) + rng.normal(0, 0.3)
    ulna_c = radius_c + rng.uniform(12, 14)
    end = rng.uniform(29, 34)
    for c, w in ((radius_c, radius_w), (ulna_c, 2.8)):
        d = np.abs(xx - c) / w
        img += 90 / (1 + np.exp((d - 1) * 8)) * (0.7 + 0.4 * d.clip(0, 1)) * (yy < end)
    for _ in range(5):
        u, v, r = rng.uniform(8, 34), rng.uniform(end + 3, 39), rng.uniform(2, 3.5)
        img += 50 * (((xx - u) ** 2 + (yy - v) ** 2) < r * r)
    mask = np.zeros((S, S), int)
    if rng.random() < 0.85:
        fy, tilt = rng.uniform(6, end - 4), rng.normal(0, 0.35)
        line = yy - fy - tilt * (xx - radius_c)
        inside = np.abs(xx - radius_c) < radius_w
        img -= rng.uniform(30, 55) * np.exp(-(line / 1.1) ** 2) * inside
        mask = ((np.abs(line) < 2.5) & (np.abs(xx - radius_c) < radius_w + 1)).astype(int)
    img = img * rng.uniform(0.85, 1.15) + rng.normal(0, 8, img.shape)
    return img.clip(0, 255).astype(np.uint8), mask


def runs(flat):
    cuts = np.flatnonzero(np.diff(flat)) + 1
    out = np.diff(np.concatenate([[0], cuts, [len(flat)]])).tolist()
    return out if flat[0] == 0 else [0] + out


train, valid = [film() for _ in range(400)], [film() for _ in range(160)]
split = 60
INI = """[data]
train_films = films_train.npz
train_annotations = clinic_a.jsonl clinic_b.jsonl
valid_films = films_valid.npz
valid_annotations = valid.jsonl

[train]
seed = 21
epochs = 6
batch = 16
lr = 0.006
dice = 0.5
"""
for side in ("bug", "ok"):
    out = here / side
    out.mkdir(exist_ok=True)
    (out / "segment.ini").write_text(INI)
    np.savez_compressed(out / "films_train.npz", films=np.stack([f for f, _ in train]))
    np.savez_compressed(out / "films_valid.npz", films=np.stack([f for f, _ in valid]))
    for name, part, base, clinic in (("clinic_a", train[:split], 0, "A"), ("clinic_b", train[split:], split, "B"),
                                     ("valid", valid, 0, "A")):
        order = "F" if side == "bug" and name == "clinic_b" else "C"
        with open(out / f"{name}.jsonl", "w") as f:
            for i, (_, mk) in enumerate(part):
                f.write(json.dumps({"film": base + i, "clinic": clinic, "runs": runs(mk.flatten(order))}) + "\n")
