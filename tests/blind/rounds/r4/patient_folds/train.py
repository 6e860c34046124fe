"""K-fold cross-validation; fold membership comes from FOLDER/folds.csv."""
import sys
from pathlib import Path
import numpy as np
import torch
import torch.nn as nn

folder = Path(__file__).parent / sys.argv[1]
EPOCHS, BATCH, LR = 4, 32, 2e-3


def load():
    d = np.load(folder / "beats.npz")
    x, y = torch.from_numpy(d["x"].astype(np.float32)), torch.from_numpy(d["y"].astype(np.int64))
    folds = np.loadtxt(folder / "folds.csv", delimiter=",", skiprows=1, dtype=int)
    print(f"{len(x)} beats of {len(set(d['patient'].tolist()))} patients")
    return x, y, torch.from_numpy(folds[:, 2]), d


def fit(x, y, seed):
    torch.manual_seed(seed)
    mean, std = x.mean(0), x.std(0)
    model = nn.Sequential(nn.Linear(x.size(1), 64), nn.ReLU(), nn.Linear(64, 2))
    opt = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=1e-2)
    x = (x - mean) / std
    for _ in range(EPOCHS):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(BATCH):
            loss = nn.functional.cross_entropy(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
    model.eval()
    return (lambda t: model((t - mean) / std)), total / len(x)


@torch.no_grad()
def accuracy(predict, x, y):
    return (predict(x).argmax(1) == y).float().mean().item()


def main():
    x, y, fold, d = load()
    scores = []
    for k in range(int(fold.max()) + 1):
        predict, loss = fit(x[fold != k], y[fold != k], seed=k)
        scores.append(accuracy(predict, x[fold == k], y[fold == k]))
        print(f"fold {k} train loss {loss:.4f} val acc {scores[-1]:.3f}")
    predict, _ = fit(x, y, seed=99)
    new_x, new_y = torch.from_numpy(d["new_x"].astype(np.float32)), torch.from_numpy(d["new_y"].astype(np.int64))
    print(f"CV acc {np.mean(scores):.3f} new-patient acc {accuracy(predict, new_x, new_y):.3f}")


if __name__ == "__main__":
    main()
