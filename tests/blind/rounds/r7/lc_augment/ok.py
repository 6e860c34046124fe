"""Variable-star classifier on folded light curves (RR Lyrae, Cepheid, eclipsing binary, Mira)."""
import math
import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SEED, N_PER_CLASS, N_PHASE, EPOCHS = 21, 320, 64, 15
CLASSES = ["RRL", "CEP", "EB", "MIRA"]
random.seed(SEED)
torch.manual_seed(SEED)


def folded_curve(kind, phase):
    if kind == 0:
        amp = random.uniform(0.4, 0.9)
        return amp * (((phase % 1.0) / 0.85).clamp(max=1.0) - 0.5)
    if kind == 1:
        amp = random.uniform(0.4, 0.9)
        return amp * (0.5 * torch.sin(2 * math.pi * phase) + 0.2 * torch.sin(4 * math.pi * phase + 0.7))
    if kind == 2:
        d1, d2 = random.uniform(0.5, 0.9), random.uniform(0.2, 0.5)
        p = phase % 1.0
        return d1 * torch.exp(-((p - 0.25) / 0.05) ** 2) + d2 * torch.exp(-((p - 0.75) / 0.05) ** 2)
    amp = random.uniform(0.4, 0.9)
    return 0.5 * amp * torch.sin(2 * math.pi * phase)


def synthesise(n_per_class):
    grid = torch.arange(N_PHASE) / N_PHASE
    curves, labels = [], []
    for kind in range(len(CLASSES)):
        for _ in range(n_per_class):
            curve = folded_curve(kind, grid + random.random()) + 0.12 * torch.randn(N_PHASE)
            curves.append(curve - curve.median())
            labels.append(kind)
    return torch.stack(curves), torch.tensor(labels)


class LightCurves(Dataset):
    def __init__(self, flux, labels, augment=False, noise=0.15):
        self.flux = flux
        self.labels = labels
        self.augment = augment
        self.noise = noise

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        curve = self.flux[i]
        if self.augment:
            curve = curve + self.noise * torch.randn(curve.shape)
            curve = curve.roll(random.randrange(N_PHASE))
        return curve.unsqueeze(0), self.labels[i]


def build_net():
    return nn.Sequential(
        nn.Conv1d(1, 16, 7, padding=3, padding_mode="circular"), nn.ReLU(), nn.MaxPool1d(2),
        nn.Conv1d(16, 32, 5, padding=2, padding_mode="circular"), nn.ReLU(), nn.MaxPool1d(2),
        nn.Conv1d(32, 32, 5, padding=2, padding_mode="circular"), nn.ReLU(),
        nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(32, len(CLASSES)),
    )


@torch.no_grad()
def evaluate(net, loader, criterion):
    net.eval()
    loss = correct = n = 0
    for curve, label in loader:
        out = net(curve)
        loss += criterion(out, label).item() * len(label)
        correct += (out.argmax(1) == label).sum().item()
        n += len(label)
    return loss / n, correct / n


flux, labels = synthesise(N_PER_CLASS)
order = torch.randperm(len(labels))
n_train = int(0.75 * len(labels))
tr, va = order[:n_train], order[n_train:]
scale = flux[tr].std()
train_set = LightCurves(flux[tr] / scale, labels[tr], augment=True, noise=0.15 / scale.item())
valid_set = LightCurves(flux[va] / scale, labels[va])
train_loader = DataLoader(train_set, batch_size=48, shuffle=True)
valid_loader = DataLoader(valid_set, batch_size=160)

net = build_net()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
for epoch in range(EPOCHS):
    net.train()
    losses = []
    for curve, label in train_loader:
        optimizer.zero_grad()
        loss = criterion(net(curve), label)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    val_loss, val_acc = evaluate(net, valid_loader, criterion)
    print(f"epoch {epoch:2d}  train {np.mean(losses):.4f}  valid {val_loss:.4f}  acc {val_acc:.3f}")
