"""Height above ground from ultrasonic echoes."""
import os
import sys

import numpy as np
import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR

EPOCHS = 8
BATCH = 80


def load_part(folder, part):
    echo = np.load(os.path.join(folder, f"{part}_echo.npy")).astype(np.float32)
    height = np.load(os.path.join(folder, f"{part}_height_cm.npy")).astype(np.float32)
    return torch.from_numpy(echo) / 1000.0, torch.from_numpy(height) / 100.0


class EchoNet(nn.Module):
    def __init__(self, samples):
        super().__init__()
        self.front = nn.Sequential(nn.Conv1d(1, 8, 7, padding=3), nn.ReLU(), nn.MaxPool1d(2))
        self.back = nn.Sequential(nn.Flatten(), nn.Linear(8 * (samples // 2), 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, wave):
        return self.back(self.front(wave[:, None]))[:, 0]


def step(model, optimizer, wave, target):
    optimizer.zero_grad()
    error = model(wave) - target
    loss = error.pow(2).mean()
    loss.backward()
    optimizer.step()
    return loss.item()


def report(model, wave, metres, centre, spread):
    model.eval()
    with torch.no_grad():
        estimate = model(wave) * spread + centre
    gap = (estimate - metres).abs()
    return gap.mean().item(), (gap < 0.1).float().mean().item()


def main():
    folder = sys.argv[1]
    torch.manual_seed(10)
    x, height = load_part(folder, "train")
    xv, height_val = load_part(folder, "val")
    mean, std = x.mean(0), x.std()
    x, xv = (x - mean) / std, (xv - mean) / std
    centre, spread = height.mean(), height.std()
    target = (height - centre) / spread

    model = EchoNet(x.shape[1])
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    scheduler = CosineAnnealingLR(optimizer, EPOCHS)
    print(f"{len(x)} training echoes, {len(xv)} validation echoes")
    for epoch in range(1, EPOCHS + 1):
        model.train()
        losses = [step(model, optimizer, x[i], target[i]) for i in torch.randperm(len(x)).split(BATCH)]
        scheduler.step()
        mae, close = report(model, xv, height_val, centre, spread)
        print(f"epoch {epoch:2d}  loss {np.mean(losses):.4f}  val MAE {mae * 100:.1f} cm  within 10 cm {close:.3f}")
    mae, close = report(model, xv, height_val, centre, spread)
    print(f"final val MAE {mae * 100:.2f} cm")


if __name__ == "__main__":
    main()
