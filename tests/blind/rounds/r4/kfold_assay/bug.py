import numpy as np
import torch
from torch import nn

FOLDS, EPOCHS, BATCH = 5, 14, 32


def assay(n, seed):
    """Fingerprint-like inputs and a noisy activity label."""
    rng = np.random.default_rng(seed)
    x = (rng.random((n, 64)) < 0.3).astype(np.float32)
    w = np.random.default_rng(99).standard_normal(64) * (np.arange(64) < 10)
    logit = 1.2 * (x @ w - 0.3 * w.sum())
    y = (rng.random(n) < 1 / (1 + np.exp(-logit))).astype(np.float32)
    return torch.from_numpy(x - 0.3), torch.from_numpy(y)


def build():
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    return model, opt


def train(model, opt, x, y):
    model.train()
    for _ in range(EPOCHS):
        for idx in torch.randperm(len(x)).split(BATCH):
            loss = nn.functional.binary_cross_entropy_with_logits(model(x[idx]).squeeze(1), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
    return loss.item()


@torch.no_grad()
def accuracy(model, x, y):
    model.eval()
    return ((model(x).squeeze(1) > 0) == (y > 0.5)).float().mean().item()


def cross_validate(x, y):
    folds = torch.randperm(len(x)).chunk(FOLDS)
    scores = []
    model, opt = build()
    for k in range(FOLDS):
        train_idx = torch.cat([f for j, f in enumerate(folds) if j != k])
        loss = train(model, opt, x[train_idx], y[train_idx])
        scores.append(accuracy(model, x[folds[k]], y[folds[k]]))
        print(f"fold {k}: last batch loss {loss:.4f} val acc {scores[-1]:.3f}")
    return float(np.mean(scores))


def main():
    torch.manual_seed(0)
    x, y = assay(600, 1)
    x_new, y_new = assay(2000, 2)
    cv = cross_validate(x, y)
    model, opt = build()
    train(model, opt, x, y)
    print(f"cross-validated acc {cv:.3f}, prospective set acc {accuracy(model, x_new, y_new):.3f}")


if __name__ == "__main__":
    main()
