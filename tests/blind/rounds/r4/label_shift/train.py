import sys
from pathlib import Path
import numpy as np
import torch
import torch.nn as nn

FOLDER = Path(__file__).parent / sys.argv[1]
torch.manual_seed(20)


def load():
    weather = np.loadtxt(FOLDER / "weather.csv", delimiter=",", skiprows=1, dtype=np.float32)
    power = np.loadtxt(FOLDER / "power.txt", dtype=np.float32)
    assert len(weather) == len(power)
    return torch.from_numpy(weather), torch.from_numpy(power)


class PowerCurve(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)


class Trainer:
    def __init__(self, x, y, holdout=0.25, lr=3e-3, batch=32):
        cut = int(len(x) * (1 - holdout))
        mean, std = x[:cut].mean(0), x[:cut].std(0)
        x = (x - mean) / std
        self.train_set, self.val_set = (x[:cut], y[:cut]), (x[cut:], y[cut:])
        self.model = PowerCurve(x.size(1))
        self.opt = torch.optim.Adam(self.model.parameters(), lr=lr)
        self.batch = batch

    def epoch(self):
        self.model.train()
        x, y = self.train_set
        total = 0.0
        for idx in torch.randperm(len(x)).split(self.batch):
            loss = nn.functional.smooth_l1_loss(self.model(x[idx]), y[idx])
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            total += loss.item() * len(idx)
        return total / len(x)

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        x, y = self.val_set
        pred = self.model(x)
        return (pred - y).abs().mean().item(), 1 - ((pred - y) ** 2).mean().item() / y.var().item()


def main():
    x, y = load()
    trainer = Trainer(x, y)
    print(f"{len(x)} hourly records, power {y.min():.2f} .. {y.max():.2f} MW")
    for epoch in range(12):
        loss = trainer.epoch()
        mae, r2 = trainer.validate()
        print(f"epoch {epoch:2d} train loss {loss:.4f} val MAE {mae:.3f} MW R2 {r2:.3f}")


if __name__ == "__main__":
    main()
