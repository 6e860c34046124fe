"""Cross-validated price model for residential listings (targets: standardised log price)."""
import math
import numpy as np
import torch
from torch import nn

SEED, FOLDS, EPOCHS, BATCH = 5, 5, 20, 32
FEATURES = ["living_m2", "lot_m2", "rooms", "age", "dist_center", "condition", "floor", "energy", "noise_db", "transit_min"]


def listings(n, rng):
    living = rng.lognormal(4.5, 0.4, n)
    lot = living * rng.lognormal(1.0, 0.6, n)
    rooms = np.clip(np.round(living / 24 + rng.normal(0, 0.8, n)), 1, 9)
    age = rng.gamma(2.0, 18.0, n)
    dist = rng.gamma(2.0, 4.0, n)
    cond = rng.integers(1, 6, n)
    floor = rng.integers(0, 9, n)
    energy = rng.integers(0, 8, n)
    noise = rng.normal(52, 8, n)
    transit = rng.gamma(2.0, 5.0, n)
    log_price = (8.6 + 0.8 * np.log(living) + 0.06 * np.log(lot) - 0.05 * dist + 0.08 * cond
                 - 0.005 * age + 0.0012 * (age - 40).clip(0) * cond - 0.004 * noise
                 + rng.normal(0, 0.22, n))
    X = np.stack([living, lot, rooms, age, dist, cond, floor, energy, noise, transit], 1)
    return X.astype(np.float32), log_price.astype(np.float32)


def build_model():
    net = nn.Sequential(nn.Linear(len(FEATURES), 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 1))
    return net, torch.optim.Adam(net.parameters(), lr=2e-3)


def standardise(train, *others):
    mu, sd = train.mean(0), train.std(0)
    return [(a - mu) / sd for a in (train, *others)]


def fit(model, optimizer, X, y):
    model.train()
    for _ in range(EPOCHS):
        total = 0.0
        for idx in torch.randperm(len(X)).split(BATCH):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(X[idx]).squeeze(1), y[idx])
            loss.backward()
            optimizer.step()
            total += loss.item() * len(idx)
    return total / len(X)


@torch.no_grad()
def rmse(model, X, y):
    model.eval()
    return math.sqrt(nn.functional.mse_loss(model(X).squeeze(1), y).item())


def main():
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    X_all, y_all = listings(600, rng)
    X_new, y_new = listings(400, rng)

    order = rng.permutation(len(X_all))
    folds = np.array_split(order, FOLDS)
    scores = []
    for k in range(FOLDS):
        model, optimizer = build_model()
        val_idx = folds[k]
        tr_idx = np.concatenate([f for j, f in enumerate(folds) if j != k])
        X_tr, X_va = standardise(torch.from_numpy(X_all[tr_idx]), torch.from_numpy(X_all[val_idx]))
        y_tr, y_va = standardise(torch.from_numpy(y_all[tr_idx]), torch.from_numpy(y_all[val_idx]))
        train_mse = fit(model, optimizer, X_tr, y_tr)
        score = rmse(model, X_va, y_va)
        scores.append(score)
        print(f"fold {k}: train mse {train_mse:.4f}  val rmse {score:.4f}")
    print(f"cross-validation rmse {np.mean(scores):.4f} +- {np.std(scores):.4f}")

    model, optimizer = build_model()
    X_tr, X_te = standardise(torch.from_numpy(X_all), torch.from_numpy(X_new))
    y_tr, y_te = standardise(torch.from_numpy(y_all), torch.from_numpy(y_new))
    fit(model, optimizer, X_tr, y_tr)
    print(f"final model, listings of the next quarter: rmse {rmse(model, X_te, y_te):.4f}")


if __name__ == "__main__":
    main()
