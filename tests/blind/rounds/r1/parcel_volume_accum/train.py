"""Daily parcel volume per depot; gradient accumulation as set in FOLDER/config.json."""
import json
import sys
from pathlib import Path
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def depot_days(n, seed):
    rng = np.random.default_rng(seed)
    population, weekday, peak = rng.uniform(0.2, 3, n), rng.integers(0, 6, n), rng.random(n) < 0.15
    lag1, lag7 = rng.normal(size=(2, n))
    volume = 2.0 * population + 0.6 * (weekday == 0) - 0.5 * (weekday == 5) + 1.2 * peak * population + 0.7 * lag7 + 0.3 * lag1
    x = np.column_stack([population - 1.6, np.eye(6)[weekday], peak, lag1, lag7])
    y = volume + 0.3 * rng.normal(size=n)
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)


class Trainer:
    def __init__(self, model, cfg):
        self.model, self.cfg = model, cfg
        self.optimizer = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
        self.loss_fn = nn.MSELoss()

    def epoch(self, loader):
        self.model.train()
        self.optimizer.zero_grad()
        total, accumulate = 0.0, self.cfg["accumulate"]
        for i, (x, y) in enumerate(loader, start=1):
            loss = self.loss_fn(self.model(x).squeeze(1), y)
            (loss / accumulate).backward()
            if i % accumulate == 0:
                self.optimizer.step()
                self.optimizer.zero_grad()
            total += loss.item()
        return total / len(loader)

    @torch.no_grad()
    def validate(self, x, y):
        self.model.eval()
        return (self.model(x).squeeze(1) - y).abs().mean().item()


def main():
    cfg = json.loads((Path(sys.argv[1]) / "config.json").read_text())
    torch.manual_seed(cfg["seed"])
    x_train, y_train = depot_days(2560, 1)
    x_val, y_val = depot_days(800, 2)
    center, scale = y_train.mean(), y_train.std()
    loader = DataLoader(TensorDataset(x_train, (y_train - center) / scale), batch_size=cfg["micro_batch"], shuffle=True)
    model = nn.Sequential(nn.Linear(x_train.shape[1], 48), nn.ReLU(), nn.Linear(48, 1))
    trainer = Trainer(model, cfg)
    print(f"effective batch {cfg['micro_batch'] * cfg['accumulate']}")
    for epoch in range(cfg["epochs"]):
        loss = trainer.epoch(loader)
        mae = trainer.validate(x_val, (y_val - center) / scale) * scale
        if epoch % 5 == 4:
            print(f"epoch {epoch:2d} train mse {loss:.4f} val MAE {mae:.3f} thousand parcels")


if __name__ == "__main__":
    main()
