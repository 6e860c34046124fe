"""Claim frequency model: expected number of claims per policy year."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, EPOCHS, BATCH, LR = 7, 12, 128, 3e-3


def make_policies(n, rng):
    age = rng.uniform(18, 80, n)
    power = rng.integers(4, 15, n)
    bonus = rng.uniform(50, 150, n)
    urban = rng.integers(0, 2, n)
    exposure = rng.uniform(0.2, 1.0, n)
    log_rate = -1.6 + 1.1 * (age < 25) + 0.09 * (power - 9) + 0.018 * (bonus - 100) + 0.5 * urban
    claims = rng.poisson(np.exp(log_rate) * exposure)
    x = np.stack([(age - 49) / 18, age < 25, (power - 9) / 3.2, (bonus - 100) / 29, urban], 1)
    return [torch.tensor(a, dtype=torch.float32) for a in (x, exposure, claims)]


class FrequencyNet(nn.Module):
    def __init__(self, n_in, hidden=32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_in, hidden), nn.Tanh(), nn.Linear(hidden, 1))

    def forward(self, x, exposure):
        return torch.exp(self.body(x).squeeze(1)) * exposure


def deviance(mu, y):
    term = torch.where(y > 0, y * torch.log(y.clamp(min=1) / mu), torch.zeros_like(y))
    return (2 * (term - (y - mu))).mean().item()


def main():
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    train, valid = make_policies(6000, rng), make_policies(2000, rng)
    loader = DataLoader(TensorDataset(*train), batch_size=BATCH, shuffle=True)
    model = FrequencyNet(train[0].shape[1])
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    criterion = nn.PoissonNLLLoss(log_input=False)
    for epoch in range(EPOCHS):
        model.train()
        total = 0.0
        for x, exposure, claims in loader:
            optimizer.zero_grad()
            loss = criterion(model(x, exposure), claims)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(x)
        model.eval()
        with torch.no_grad():
            mu = model(valid[0], valid[1])
        print(f"epoch {epoch} loss {total / len(train[0]):.4f} valid deviance {deviance(mu, valid[2]):.4f}")
    print(f"valid deviance {deviance(mu, valid[2]):.4f} predicted claims {mu.sum():.0f} actual {valid[2].sum():.0f}")


if __name__ == "__main__":
    main()
