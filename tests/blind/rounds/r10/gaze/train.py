"""Calibrate a gaze regressor for one person on top of the pretrained eye network."""
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Options:
    weights: str = "weights/eyenet.pt"
    epochs: int = 40
    batch_size: int = 20
    head_lr: float = 3e-3
    body_lr: float = 2e-5
    seed: int = 4


class GazeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 12, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv2d(12, 24, 3, stride=2, padding=1), nn.ReLU(),
            nn.Flatten(), nn.Linear(24 * 6 * 9, 32), nn.ReLU())
        self.head = nn.Linear(32, 2)

    def forward(self, x):
        return self.head(self.backbone(x))


def load_split(name):
    blob = np.load(f"data/{name}.npz")
    x = torch.from_numpy(blob["image"]).float().div(255).sub(0.6).div(0.25).unsqueeze(1)
    return x, torch.from_numpy(blob["gaze"])


def angular_error(pred, true):
    """Degrees between the two gaze directions."""

    def direction(g):
        yaw, pitch = torch.deg2rad(g[:, 0]), torch.deg2rad(g[:, 1])
        return torch.stack([pitch.cos() * yaw.sin(), pitch.sin(), pitch.cos() * yaw.cos()], dim=1)

    cos = (direction(pred) * direction(true)).sum(1).clamp(-1, 1)
    return torch.rad2deg(torch.acos(cos)).mean().item()


@torch.no_grad()
def test(model, x, y, scale):
    model.eval()
    pred = torch.cat([model(part) for part in x.split(100)]) * scale
    return angular_error(pred, y)


def main(o):
    torch.set_num_threads(1)
    torch.manual_seed(o.seed)
    x, y = load_split("calibration")
    xt, yt = load_split("test")
    scale = y.std(0)

    model = GazeNet()
    checkpoint = torch.load(o.weights, weights_only=True)
    model.load_state_dict(checkpoint["state_dict"], strict=False)
    print(f"weights from {o.weights} (epoch {checkpoint['epoch']}), {len(x)} calibration pictures")

    optimizer = torch.optim.Adam([
        {"params": model.backbone.parameters(), "lr": o.body_lr},
        {"params": model.head.parameters(), "lr": o.head_lr},
    ])
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=o.epochs)
    loader = DataLoader(TensorDataset(x, y), batch_size=o.batch_size, shuffle=True)
    criterion = nn.SmoothL1Loss()
    for epoch in range(o.epochs):
        model.train()
        total = 0.0
        for xb, yb in loader:
            loss = criterion(model(xb), yb / scale)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(xb)
        scheduler.step()
        if epoch % 4 == 3:
            print(f"epoch {epoch + 1:2d} loss {total / len(x):.4f} test error {test(model, xt, yt, scale):.3f} deg")


if __name__ == "__main__":
    main(Options())
