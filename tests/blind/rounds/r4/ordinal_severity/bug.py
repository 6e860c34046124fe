"""Ordinal grading 0..4 with K-1 cumulative logits."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split

K = 5
torch.manual_seed(42)


def patients(n):
    g = torch.Generator().manual_seed(5)
    x = torch.randn(n, 12, generator=g)
    score = 1.2 * x[:, 0] - x[:, 1] + 0.8 * torch.tanh(2 * x[:, 2]) + 0.3 * torch.randn(n, generator=g)
    cuts = torch.tensor([-1.8, -0.6, 0.6, 1.8])
    return x, torch.bucketize(score, cuts)


class OrdinalNet(nn.Module):
    def __init__(self, d, hidden=32):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(d, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.score = nn.Linear(hidden, 1, bias=False)
        self.bias = nn.Parameter(torch.linspace(1.0, -1.0, K - 1))

    def forward(self, x):
        return self.score(self.trunk(x)) + self.bias


def to_levels(y):
    thresholds = torch.arange(K - 1)
    return (y[:, None] >= thresholds).float()


def predict(logits):
    return (logits.sigmoid() > 0.5).sum(1)


def quadratic_kappa(a, b):
    obs = torch.zeros(K, K)
    for i, j in zip(a.tolist(), b.tolist()):
        obs[i, j] += 1
    grid = torch.arange(K).float()
    w = (grid[:, None] - grid[None, :]) ** 2
    expected = obs.sum(1)[:, None] * obs.sum(0)[None, :] / obs.sum()
    return 1 - (w * obs).sum() / (w * expected).sum()


def evaluate(model, loader):
    model.eval()
    pred, true = [], []
    with torch.no_grad():
        for x, y in loader:
            pred.append(predict(model(x)))
            true.append(y)
    pred, true = torch.cat(pred), torch.cat(true)
    mae = (pred - true).abs().float().mean().item()
    acc = (pred == true).float().mean().item()
    return acc, mae, quadratic_kappa(true, pred).item()


def main():
    x, y = patients(2400)
    train, val = random_split(TensorDataset(x, y), [2000, 400], generator=torch.Generator().manual_seed(1))
    train_loader = DataLoader(train, batch_size=40, shuffle=True)
    val_loader = DataLoader(val, batch_size=200)
    model = OrdinalNet(x.size(1))
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(10):
        model.train()
        total = 0.0
        for xb, yb in train_loader:
            loss = F.binary_cross_entropy_with_logits(model(xb), to_levels(yb))
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        acc, mae, kappa = evaluate(model, val_loader)
        print(f"epoch {epoch} loss {total / len(train_loader):.4f} val acc {acc:.3f} mae {mae:.3f} kappa {kappa:.3f}")


if __name__ == "__main__":
    main()
