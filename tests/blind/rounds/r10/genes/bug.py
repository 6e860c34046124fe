"""Tumour subtype from expression profiles, 5-fold cross validation."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

N_GENES, N_CLASSES, FOLDS = 600, 4, 5
SETTINGS = {"lr": 1e-3, "weight_decay": 0.05, "epochs": 30, "batch": 32, "hidden": 64}


def expression(n, seed):
    """Log-expression with pathway structure, batch noise and subtype signatures."""
    world = np.random.default_rng(123)
    loadings = world.normal(size=(20, N_GENES)) * 0.6
    signature = np.zeros((N_CLASSES, N_GENES))
    for c in range(N_CLASSES):
        genes = world.choice(N_GENES, 40, replace=False)
        signature[c, genes] = world.normal(size=40) * 0.85
    rng = np.random.default_rng(seed)
    y = rng.integers(0, N_CLASSES, n)
    x = 6 + rng.normal(size=(n, 20)) @ loadings + signature[y] + rng.normal(size=(n, N_GENES)) * 1.1
    return x.astype(np.float32), y


def build(settings):
    model = nn.Sequential(
        nn.Dropout(0.2),
        nn.Linear(N_GENES, settings["hidden"]), nn.ReLU(), nn.Dropout(0.4),
        nn.Linear(settings["hidden"], N_CLASSES),
    )
    opt = torch.optim.AdamW(model.parameters(), lr=settings["lr"],
                            weight_decay=settings["weight_decay"])
    return model, opt


def stratified_folds(y, k, seed):
    rng = np.random.default_rng(seed)
    fold = np.empty(len(y), dtype=int)
    for c in np.unique(y):
        idx = rng.permutation(np.flatnonzero(y == c))
        fold[idx] = np.arange(len(idx)) % k
    return fold


def train_epoch(model, opt, x, y, batch):
    model.train()
    total = 0.0
    for idx in torch.randperm(len(y)).split(batch):
        opt.zero_grad()
        loss = F.cross_entropy(model(x[idx]), y[idx])
        loss.backward()
        opt.step()
        total += loss.item() * len(idx)
    return total / len(y)


@torch.no_grad()
def evaluate(model, x, y):
    model.eval()
    logits = model(x)
    return F.cross_entropy(logits, y).item(), (logits.argmax(1) == y).float().mean().item()


def cross_validate(x, y, settings):
    fold = stratified_folds(y, FOLDS, seed=0)
    scores = []
    model, opt = build(settings)
    for k in range(FOLDS):
        tr, va = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        mean, std = x[tr].mean(0), x[tr].std(0) + 1e-6
        xt, xv = torch.from_numpy((x[tr] - mean) / std), torch.from_numpy((x[va] - mean) / std)
        yt, yv = torch.from_numpy(y[tr]), torch.from_numpy(y[va])
        for epoch in range(1, settings["epochs"] + 1):
            loss = train_epoch(model, opt, xt, yt, settings["batch"])
            if epoch % 10 == 0:
                val_loss, val_acc = evaluate(model, xv, yv)
                print(f"fold {k + 1} epoch {epoch:2d}  train loss {loss:.4f}  "
                      f"val loss {val_loss:.4f}  val acc {val_acc:.4f}")
        scores.append(val_acc)
    return scores


def main():
    torch.manual_seed(0)
    x, y = expression(400, seed=0)
    print(f"{len(y)} tumours, {x.shape[1]} genes, majority class {np.bincount(y).max() / len(y):.2f}")
    scores = cross_validate(x, y, SETTINGS)
    print(f"cross-validated accuracy {np.mean(scores):.4f} +- {np.std(scores):.4f}")


if __name__ == "__main__":
    main()
