import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CHANNELS = 12


def healthy(n, rng, mixing):
    state = rng.normal(0, 1, (n, 3))
    return state @ mixing + rng.normal(0, 0.15, (n, CHANNELS))


def faulty(n, rng, mixing):
    rows = healthy(n, rng, mixing)
    for row in rows:
        broken = rng.choice(CHANNELS, 2, replace=False)
        row[broken] -= rng.uniform(0.8, 1.6, 2)
    return rows


class PumpAutoencoder(nn.Module):
    def __init__(self, bottleneck=3):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(CHANNELS, 24), nn.ReLU(), nn.Linear(24, bottleneck))
        self.decoder = nn.Sequential(nn.Linear(bottleneck, 24), nn.ReLU(), nn.Linear(24, CHANNELS), nn.ReLU())

    def forward(self, x):
        return self.decoder(self.encoder(x))


def anomaly_scores(model, x):
    model.eval()
    with torch.no_grad():
        return (model(x) - x).pow(2).mean(1)


def auc(normal, abnormal):
    return (abnormal[:, None] > normal[None, :]).float().mean().item()


def main():
    torch.manual_seed(21)
    rng = np.random.default_rng(21)
    mixing = rng.normal(0, 1, (3, CHANNELS))
    train = healthy(4000, rng, mixing)
    mean, std = train.mean(0), train.std(0)

    def scale(a):
        return torch.tensor((a - mean) / std, dtype=torch.float32)

    x_train = scale(train)
    x_valid, x_test, x_fault = scale(healthy(800, rng, mixing)), scale(healthy(800, rng, mixing)), scale(faulty(400, rng, mixing))
    loader = DataLoader(TensorDataset(x_train), batch_size=64, shuffle=True)
    model = PumpAutoencoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    for epoch in range(8):
        model.train()
        total = 0.0
        for (x,) in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), x)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(x)
        print(f"epoch {epoch} train mse {total / len(x_train):.4f} valid mse {anomaly_scores(model, x_valid).mean():.4f}")
    threshold = torch.quantile(anomaly_scores(model, x_valid), 0.99)
    caught = (anomaly_scores(model, x_fault) > threshold).float().mean().item()
    print(f"auc {auc(anomaly_scores(model, x_test), anomaly_scores(model, x_fault)):.3f} faults caught {caught:.3f}")


if __name__ == "__main__":
    main()
