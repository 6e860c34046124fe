"""County-level maize yield from weekly weather and soil, averaged weights for evaluation."""
import copy

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

cfg = dict(seed=11, counties=160, years=14, weeks=26, channels=4, batch=64, epochs=12, lr=2e-3, ema=0.98)
torch.manual_seed(cfg["seed"])
rng = np.random.default_rng(cfg["seed"])


def build_table():
    soil = rng.normal(size=(cfg["counties"], 3))
    weather, soils, target, year = [], [], [], []
    stage = np.exp(-0.5 * ((np.arange(cfg["weeks"]) - 14) / 3.0) ** 2)
    for y in range(cfg["years"]):
        season = rng.normal(size=cfg["channels"]) * 0.4
        for c in range(cfg["counties"]):
            temp = 20 + 6 * np.sin(np.arange(cfg["weeks"]) / 26 * np.pi) + season[0] + rng.normal(0, 2.5, cfg["weeks"])
            rain = np.maximum(0, 25 + 5 * season[1] + rng.normal(0, 12, cfg["weeks"]))
            ndvi = 0.3 + 0.5 * stage + rng.normal(0, 0.08, cfg["weeks"])
            vpd = 1.2 + 0.05 * (temp - 20) + rng.normal(0, 0.2, cfg["weeks"])
            heat = (np.maximum(temp - 27, 0) * stage).sum()
            water = (rain * stage).sum() / stage.sum()
            ton = 9.0 + 0.09 * (water - 25) - 0.16 * heat + 0.6 * soil[c, 0] - 0.3 * soil[c, 1] ** 2 + rng.normal(0, 0.3)
            weather.append(np.stack([temp, rain, ndvi, vpd]))
            soils.append(soil[c])
            target.append(ton)
            year.append(y)
    to = lambda a: torch.tensor(np.array(a), dtype=torch.float32)
    return to(weather), to(soils), to(target), torch.tensor(year)


class YieldNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(
            nn.BatchNorm1d(cfg["channels"]),
            nn.Conv1d(cfg["channels"], 24, 5, padding=2), nn.BatchNorm1d(24), nn.ReLU(),
            nn.AvgPool1d(2),
            nn.Conv1d(24, 24, 3, padding=1), nn.BatchNorm1d(24), nn.ReLU(),
        )
        self.head = nn.Sequential(nn.Dropout(0.3), nn.Linear(24 * 13 + 3, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, weather, soil):
        z = self.conv(weather).flatten(1)
        return self.head(torch.cat([z, soil], dim=1)).squeeze(1)


class WeightAverage:
    def __init__(self, model, decay):
        self.decay = decay
        self.model = copy.deepcopy(model).eval()
        for p in self.model.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, live):
        for avg, p in zip(self.model.parameters(), live.parameters()):
            avg.lerp_(p, 1 - self.decay)


@torch.no_grad()
def rmse(model, loader, scale, shift):
    model.eval()
    err, n = 0.0, 0
    for w, s, y in loader:
        pred = model(w, s) * scale + shift
        err += ((pred - y) ** 2).sum().item()
        n += len(y)
    return (err / n) ** 0.5


weather, soil, tons, year = build_table()
train = year < cfg["years"] - 3
shift, scale = tons[train].mean(), tons[train].std()
train_loader = DataLoader(TensorDataset(weather[train], soil[train], tons[train]), cfg["batch"], shuffle=True, drop_last=True)
valid_loader = DataLoader(TensorDataset(weather[~train], soil[~train], tons[~train]), 256)

model = YieldNet()
average = WeightAverage(model, cfg["ema"])
opt = torch.optim.AdamW(model.parameters(), lr=cfg["lr"], weight_decay=1e-2)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, cfg["epochs"])
loss_fn = nn.MSELoss()
for epoch in range(cfg["epochs"]):
    model.train()
    losses = []
    for w, s, y in train_loader:
        loss = loss_fn(model(w, s), (y - shift) / scale)
        opt.zero_grad()
        loss.backward()
        opt.step()
        average.update(model)
        losses.append(loss.item())
    sched.step()
    if epoch % 3 == 2:
        print(f"epoch {epoch + 1:2d}  train mse {np.mean(losses):.4f}  "
              f"valid rmse {rmse(average.model, valid_loader, scale, shift):.3f} t/ha")
print(f"spread of yields in held-out years: {tons[~train].std():.3f} t/ha")
