"""Contrastive pretraining on bearing vibration windows, then a linear probe with few labels."""
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

LENGTH = 64
FAULTS = 5


def vibration(n, rng):
    y = rng.integers(0, FAULTS, n)
    t = np.arange(LENGTH)
    freq = np.array([3.0, 4.2, 5.5, 7.0, 8.8])[y] + rng.normal(0, 0.15, n)
    side = np.array([11.0, 9.0, 13.0, 10.0, 12.0])[y]
    phase = rng.uniform(0, 2 * np.pi, (n, 2))
    x = np.sin(2 * np.pi * freq[:, None] * t / LENGTH + phase[:, :1])
    x = x + 0.6 * np.sin(2 * np.pi * side[:, None] * t / LENGTH + phase[:, 1:])
    x = x * rng.uniform(0.7, 1.3, (n, 1)) + rng.normal(0, 0.6, (n, LENGTH))
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y)


def augment(x):
    shift = torch.randint(0, LENGTH, (len(x), 1))
    idx = (torch.arange(LENGTH) + shift) % LENGTH
    x = x.gather(1, idx)
    x = x * (0.7 + 0.6 * torch.rand(len(x), 1))
    return x + 0.3 * torch.randn_like(x)


class Encoder(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(1, 24, 9, padding=4, padding_mode="circular"), nn.BatchNorm1d(24), nn.ReLU(),
            nn.Conv1d(24, 32, 9, stride=2, padding=4, padding_mode="circular"), nn.BatchNorm1d(32), nn.ReLU())
        self.project = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, dim))

    def features(self, x):
        return self.conv(x.unsqueeze(1)).mean(2)

    def forward(self, x):
        return F.normalize(self.project(self.features(x)), dim=1)


def nt_xent(za, zb, tau=0.2):
    z = torch.cat([za, zb])
    n = len(z)
    sim = z @ z.T / tau
    sim = sim.masked_fill(torch.eye(n, dtype=torch.bool), float("-inf"))
    positive = (torch.arange(n) + n // 2) % n
    return F.cross_entropy(sim, positive)


def pretrain(model, x, epochs=5, batch=64):
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(epochs):
        model.train()
        total = 0.0
        order = torch.randperm(len(x))
        for idx in order[:len(order) // batch * batch].split(batch):
            loss = nt_xent(model(augment(x[idx])), model(augment(x[idx])))
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"epoch {epoch} contrastive {total / (len(x) // batch):.4f}")


def linear_probe(model, x, y, xt, yt):
    model.eval()
    with torch.no_grad():
        h, ht = model.features(x), model.features(xt)
    mu, sd = h.mean(0), h.std(0) + 1e-6
    h, ht = (h - mu) / sd, (ht - mu) / sd
    head = nn.Linear(h.shape[1], FAULTS)
    opt = torch.optim.Adam(head.parameters(), lr=0.02, weight_decay=1e-3)
    for _ in range(150):
        opt.zero_grad()
        F.cross_entropy(head(h), y).backward()
        opt.step()
    with torch.no_grad():
        return (head(ht).argmax(1) == yt).float().mean().item()


if __name__ == "__main__":
    torch.manual_seed(2)
    rng = np.random.default_rng(2)
    unlabelled, _ = vibration(1600, rng)
    x, y = vibration(60, rng)
    xt, yt = vibration(800, rng)
    scale = unlabelled.std()
    model = Encoder()
    pretrain(model, unlabelled / scale)
    print(f"probe_acc={linear_probe(model, x / scale, y, xt / scale, yt):.4f}")
