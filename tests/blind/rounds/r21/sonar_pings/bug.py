"""Sort sonar echoes (rock, mine, fish shoal) by their envelope."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

LENGTH = 64
KINDS = ("rock", "mine", "shoal")


def echo(kind, rng):
    t = np.arange(LENGTH)
    start = rng.integers(8, 20)
    tau = t - start
    on = tau >= 0
    if kind == 0:
        s = np.exp(-tau / 9.0) * np.sin(tau * rng.uniform(0.85, 1.0))
    elif kind == 1:
        s = np.exp(-tau / 9.0) * np.sin(tau * rng.uniform(1.05, 1.2))
        s = s + 0.6 * np.exp(-np.maximum(tau - 16, 0) / 6.0) * (tau > 16) * np.sin(tau * 1.1)
    else:
        s = np.exp(-tau / 14.0) * np.sin(tau * rng.uniform(0.85, 1.2) + rng.uniform(0, 6.3))
        s = s * (1 + 0.6 * rng.standard_normal(LENGTH))
    s = np.where(on, s, 0.0) + 0.12 * rng.standard_normal(LENGTH)
    return s.astype(np.float32)


class Pings(Dataset):
    def __init__(self, n, seed, augment=False):
        rng = np.random.default_rng(seed)
        self.labels = torch.from_numpy(rng.integers(0, 3, n))
        self.waves = torch.from_numpy(np.stack([echo(int(k), rng) for k in self.labels]))
        self.waves /= self.waves.abs().amax(1, keepdim=True)
        self.augment = augment

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        wave = self.waves[i]
        if self.augment:
            wave += 0.15 * torch.randn(LENGTH)
            wave *= 1 + 0.1 * (torch.rand(1) - 0.5)
        return wave, self.labels[i]


class EchoNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(1, 16, 7, padding=3), nn.BatchNorm1d(16), nn.ReLU(), nn.MaxPool1d(2),
            nn.Conv1d(16, 32, 5, padding=2), nn.BatchNorm1d(32), nn.ReLU(), nn.MaxPool1d(2),
        )
        self.head = nn.Linear(32 * LENGTH // 4, len(KINDS))
        self.drop = nn.Dropout(0.3)

    def forward(self, wave):
        return self.head(self.drop(self.features(wave[:, None]).flatten(1)))


def score(model, loader):
    model.eval()
    table = torch.zeros(3, 3, dtype=torch.long)
    with torch.no_grad():
        for wave, y in loader:
            pred = model(wave).argmax(1)
            table.view(-1).index_add_(0, y * 3 + pred, torch.ones_like(y))
    recall = table.diag().float() / table.sum(1).clamp(min=1)
    return recall.mean().item(), table


def fit(model, train, valid, epochs):
    loader = DataLoader(train, batch_size=50, shuffle=True)
    valid_loader = DataLoader(valid, batch_size=200)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs, eta_min=1e-4)
    ce = nn.CrossEntropyLoss()
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for wave, y in loader:
            loss = ce(model(wave), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(y)
        sched.step()
        if epoch % 5 == 4:
            print(f"epoch {epoch + 1:2d}  loss {total / len(train):.4f}  balanced acc {score(model, valid_loader)[0]:.4f}")
    return score(model, valid_loader)


if __name__ == "__main__":
    torch.manual_seed(40)
    train_set = Pings(1200, seed=1, augment=True)
    valid_set = Pings(600, seed=2)
    balanced, confusion = fit(EchoNet(), train_set, valid_set, epochs=20)
    print(confusion)
    print(f"validation balanced accuracy: {balanced:.4f}")
