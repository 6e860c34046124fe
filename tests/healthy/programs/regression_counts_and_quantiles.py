"""Targets that are whole numbers or asymmetric: Poisson counts, squared error on counts, ordered grades, quantiles by
pinball loss."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(31)
x = torch.randn(600, 5)
rate = torch.exp(0.5 * x[:, 0] - 0.3 * x[:, 1] + 1.0)
counts = torch.poisson(rate)
grades = torch.bucketize(x[:, 0] + x[:, 2] + 0.3 * torch.randn(600), torch.tensor([-1.5, -0.5, 0.5, 1.5]))
price = 2 * x[:, 0] + torch.exp(0.5 * x[:, 3]) * torch.randn(600)


def mlp(out):
    return nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, out))


def fit(model, target, loss_of, lr=0.02, epochs=2):
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    loader = DataLoader(TensorDataset(x[:500], target[:500]), batch_size=50, shuffle=True)
    for _ in range(epochs):
        model.train()
        for xb, yb in loader:
            optimizer.zero_grad()
            loss = loss_of(model(xb), yb)
            loss.backward()
            optimizer.step()
    model.eval()
    with torch.no_grad():
        return loss_of(model(x[500:]), target[500:]).item()


class Ordinal(nn.Module):
    """Cumulative logits: one score, ordered thresholds."""

    def __init__(self, classes):
        super().__init__()
        self.score = mlp(1)
        self.first = nn.Parameter(torch.tensor(-1.0))
        self.gaps = nn.Parameter(torch.zeros(classes - 2))

    def forward(self, x):
        thresholds = torch.cat([self.first.view(1), self.first + F.softplus(self.gaps).cumsum(0)])
        return self.score(x) - thresholds


def pinball(prediction, target, quantiles=(0.1, 0.5, 0.9)):
    q = torch.tensor(quantiles)
    error = target.unsqueeze(1) - prediction
    return torch.max(q * error, (q - 1) * error).mean()


def ordinal_loss(logits, grade):
    above = (grade.unsqueeze(1) > torch.arange(logits.size(1))).float()
    return F.binary_cross_entropy_with_logits(logits, above)


poisson = nn.PoissonNLLLoss(log_input=True)
print("poisson", fit(mlp(1), counts, lambda out, y: poisson(out.squeeze(1), y)))
print("squared error on counts", fit(mlp(1), counts.unsqueeze(1), nn.MSELoss()))
print("long counts", fit(mlp(1), counts.long(), lambda out, y: F.mse_loss(out.squeeze(-1), y.float())))
print("grades as numbers", fit(mlp(1), grades, lambda out, y: F.smooth_l1_loss(out.view(-1), y.float())))
print("grades in order", fit(Ordinal(5), grades, ordinal_loss))
print("quantiles", fit(mlp(3), price, pinball))
log_likelihood = nn.GaussianNLLLoss()
print(
    "mean and variance", fit(mlp(2), price, lambda out, y: log_likelihood(out[:, 0], y, F.softplus(out[:, 1]) + 1e-3))
)
