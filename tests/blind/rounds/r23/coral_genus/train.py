# %% Coral genus from small reef photos: colour and texture features, then an MLP
import csv
import json
import os
import sys

import numpy as np
import torch
import torch.nn as nn


def photo_features(photos):
    """colour moments, colour histograms, gradient orientations -> (n, 41) float32"""
    p = photos.astype(np.float32) / 255.0
    grey = p.mean(-1)
    parts = [p.mean((1, 2)), p.std((1, 2))]
    for ch in range(3):
        q = np.clip((p[..., ch] * 8).astype(int), 0, 7).reshape(len(p), -1)
        parts.append(np.stack([(q == k).mean(1) for k in range(8)], 1))
    gx = grey[:, 1:-1, 2:] - grey[:, 1:-1, :-2]
    gy = grey[:, 2:, 1:-1] - grey[:, :-2, 1:-1]
    mag = np.sqrt(gx ** 2 + gy ** 2)
    ang = ((np.arctan2(gy, gx) % np.pi) / np.pi * 8).astype(int).clip(0, 7)
    parts.append(np.stack([(mag * (ang == k)).mean((1, 2)) for k in range(8)], 1))
    lag = [(grey[:, :, s:] * grey[:, :, :-s]).mean((1, 2)) - grey.mean((1, 2)) ** 2 for s in (1, 2, 4)]
    parts.append(np.stack(lag, 1))
    return np.concatenate(parts, 1).astype(np.float32)


def load_features(root, n):
    cached = os.path.join(root, "cache", "features.npy")
    if os.path.exists(cached):
        feats = np.load(cached)
        if len(feats) == n:
            return feats
    feats = photo_features(np.load(os.path.join(root, "photos.npy")))
    os.makedirs(os.path.dirname(cached), exist_ok=True)
    np.save(cached, feats)
    return feats


# %%
def main(root):
    with open(os.path.join(root, "setup.json")) as f:
        hp = json.load(f)
    torch.manual_seed(hp["seed"])
    with open(os.path.join(root, "annotations.tsv")) as f:
        ann = list(csv.DictReader(f, delimiter="\t"))
    genera = sorted({a["genus"] for a in ann})
    y = torch.tensor([genera.index(a["genus"]) for a in ann])
    feats = load_features(root, len(ann))
    order = np.random.default_rng(hp["seed"]).permutation(len(ann))
    n_val = int(len(ann) * hp["val_share"])
    val, trn = torch.from_numpy(order[:n_val]), torch.from_numpy(order[n_val:])
    mean, std = feats[trn].mean(0), feats[trn].std(0) + 1e-6
    x = torch.from_numpy((feats - mean) / std).float()

    clf = nn.Sequential(
        nn.Linear(x.shape[1], hp["width"]), nn.BatchNorm1d(hp["width"]), nn.ReLU(), nn.Dropout(hp["dropout"]),
        nn.Linear(hp["width"], hp["width"]), nn.ReLU(), nn.Dropout(hp["dropout"]),
        nn.Linear(hp["width"], len(genera)))
    opt = torch.optim.AdamW(clf.parameters(), lr=hp["lr"], weight_decay=hp["weight_decay"])
    ce = nn.CrossEntropyLoss()
    for ep in range(hp["epochs"]):
        clf.train()
        run = []
        for b in trn[torch.randperm(len(trn))].split(hp["batch"]):
            opt.zero_grad()
            loss = ce(clf(x[b]), y[b])
            loss.backward()
            opt.step()
            run.append(loss.item())
        clf.eval()
        with torch.no_grad():
            hit = (clf(x[val]).argmax(1) == y[val]).float()
        recalls = [hit[y[val] == k].mean().item() for k in range(len(genera))]
        if (ep + 1) % 3 == 0:
            print(f"{ep + 1:3d}  loss {np.mean(run):.4f}  val acc {hit.mean().item():.3f}  mean recall {np.mean(recalls):.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
