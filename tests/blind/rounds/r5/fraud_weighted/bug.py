import argparse
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def transactions(n, rng):
    amount = rng.lognormal(3.5, 1.0, n)
    hour = rng.integers(0, 24, n)
    foreign = (rng.random(n) < 0.15).astype(float)
    velocity = rng.poisson(2, n)
    merchant_risk = rng.normal(0, 1, n)
    score = -6.6 + 0.9 * (np.log(amount) - 3.5) + 1.7 * foreign + 0.5 * velocity + 1.2 * merchant_risk + 1.0 * (hour < 6)
    y = (rng.random(n) < 1 / (1 + np.exp(-1.5 * score))).astype(np.float32)
    x = np.stack([np.log(amount), np.sin(hour * np.pi / 12), np.cos(hour * np.pi / 12), foreign, velocity, merchant_risk], 1)
    return x.astype(np.float32), y


def report(model, x, y):
    model.eval()
    with torch.no_grad():
        p = torch.sigmoid(model(x).squeeze(1))
    flagged = p > 0.5
    tp = (flagged & (y == 1)).sum().item()
    recall = tp / max(1, int(y.sum()))
    precision = tp / max(1, int(flagged.sum()))
    balanced = 0.5 * (recall + (~flagged & (y == 0)).sum().item() / int((y == 0).sum()))
    return recall, precision, balanced


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--batch-size", type=int, default=256)
    ap.add_argument("--lr", type=float, default=2e-3)
    args = ap.parse_args()
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    x_train, y_train = transactions(12000, rng)
    x_valid, y_valid = transactions(5000, rng)
    mean, std = x_train.mean(0), x_train.std(0)
    x_train, x_valid = (torch.from_numpy((a - mean) / std) for a in (x_train, x_valid))
    y_train, y_valid = torch.from_numpy(y_train), torch.from_numpy(y_valid)
    n_pos = y_train.sum()
    n_neg = len(y_train) - n_pos
    pos_weight = n_pos / n_neg
    print(f"train rows {len(y_train)} fraud rate {y_train.mean():.4f} pos_weight {pos_weight:.4f}")
    model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 1))
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        model.train()
        order = torch.randperm(len(x_train))
        losses = []
        for idx in order.split(args.batch_size):
            logits = model(x_train[idx]).squeeze(1)
            loss = F.binary_cross_entropy_with_logits(logits, y_train[idx], pos_weight=pos_weight)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        recall, precision, balanced = report(model, x_valid, y_valid)
        print(f"epoch {epoch} loss {np.mean(losses):.4f} recall {recall:.3f} precision {precision:.3f}")
    print(f"valid recall {recall:.3f} precision {precision:.3f} balanced accuracy {balanced:.3f}")


if __name__ == "__main__":
    main()
