"""Telecom churn model: balanced sampling of churners, AUC on a held-out month."""
import argparse
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler


def get_args():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=10)
    ap.add_argument("--batch-size", type=int, default=128)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--seed", type=int, default=13)
    return ap.parse_args()


def customers(n, rng):
    tenure = rng.exponential(24, n)
    charge = rng.normal(65, 20, n)
    calls = rng.poisson(1.2, n)
    contract = rng.integers(0, 3, n)
    data_use = rng.gamma(2, 4, n)
    autopay = rng.random(n) < 0.5
    z = -2.6 - 0.05 * tenure + 0.025 * (charge - 65) + 0.8 * (calls >= 3) * 2 - 0.9 * contract + 0.1 * data_use - 0.4 * autopay
    churn = rng.random(n) < 1 / (1 + np.exp(-z * 1.4))
    feats = np.column_stack([np.log1p(tenure), charge, calls, np.eye(3)[contract], np.log1p(data_use), autopay])
    return torch.tensor(feats, dtype=torch.float32), torch.tensor(churn, dtype=torch.long)


def roc_auc(score, label):
    ranks = score.argsort().argsort().double() + 1
    n_pos = (label == 1).sum()
    n_neg = len(label) - n_pos
    return ((ranks[label == 1].sum() - n_pos * (n_pos + 1) / 2) / (n_pos * n_neg)).item()


def balanced_loader(x, y, batch_size):
    counts = torch.bincount(y)
    class_weight = counts.sum() / counts.float()
    sampler = WeightedRandomSampler(class_weight, num_samples=len(y), replacement=True)
    return DataLoader(TensorDataset(x, y), batch_size=batch_size, sampler=sampler)


def main():
    args = get_args()
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    x_train, y_train = customers(6000, rng)
    x_val, y_val = customers(3000, rng)
    mean, std = x_train.mean(0), x_train.std(0)
    x_train, x_val = (x_train - mean) / std, (x_val - mean) / std
    print(f"train {len(y_train)} churn rate {y_train.float().mean():.3f}")

    loader = balanced_loader(x_train, y_train, args.batch_size)
    model = nn.Sequential(nn.Linear(x_train.shape[1], 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(args.epochs):
        model.train()
        running, seen = 0.0, 0
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            running += loss.item() * len(y)
            seen += len(y)
        model.eval()
        with torch.no_grad():
            logits = model(x_val)
        score = logits[:, 1] - logits[:, 0]
        recall = (logits.argmax(1)[y_val == 1] == 1).float().mean()
        print(f"epoch {epoch:2d} loss {running / seen:.4f} val AUC {roc_auc(score, y_val):.3f} churner recall {recall:.3f}")


if __name__ == "__main__":
    main()
