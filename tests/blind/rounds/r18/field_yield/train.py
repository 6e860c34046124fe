import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class YieldNet(nn.Module):
    def __init__(self, n_soil, channels, hidden):
        super().__init__()
        self.season = nn.Sequential(nn.Conv1d(3, channels, 5, padding=2), nn.ReLU(), nn.Conv1d(channels, channels, 5, padding=2), nn.ReLU(), nn.AvgPool1d(4), nn.Flatten())
        self.head = nn.Sequential(nn.Linear(4 * channels + n_soil, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, series, soil):
        return self.head(torch.cat([self.season(series), soil], 1)).squeeze(1)


root = Path(sys.argv[1])
cfg = json.loads((root / "config.json").read_text())
o, t = cfg["optim"], cfg["train"]
torch.manual_seed(t["seed"])

z = np.load(root / "fields.npz")
series = torch.from_numpy(np.stack([z["ndvi"], z["rain"], z["heat"]], 1))
soil, y = torch.from_numpy(z["soil"]), torch.from_numpy(z["yield_t_ha"])
test = torch.zeros(len(y), dtype=torch.bool)
test[torch.from_numpy(np.load(root / "test_rows.npy"))] = True
series = (series - series[~test].mean((0, 2), keepdim=True)) / series[~test].std((0, 2), keepdim=True)
soil = (soil - soil[~test].mean(0)) / soil[~test].std(0)
mu, sd = y[~test].mean(), y[~test].std()

loader = DataLoader(TensorDataset(series[~test], soil[~test], (y[~test] - mu) / sd), batch_size=t["batch_size"], shuffle=True, drop_last=True)
net = YieldNet(soil.shape[1], **cfg["model"])
opt = torch.optim.AdamW(net.parameters(), lr=o["lr"], weight_decay=o["weight_decay"])
warmup = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / o["warmup_steps"]))

for epoch in range(t["epochs"]):
    losses = []
    for sb, gb, yb in loader:
        loss = nn.functional.smooth_l1_loss(net(sb, gb), yb)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), o["grad_clip"])
        opt.step()
        warmup.step()
        losses.append(loss.item())
    if (epoch + 1) % 4 == 0:
        print(f"epoch {epoch + 1:3d} loss {np.mean(losses):.4f}")

net.eval()
with torch.no_grad():
    p = net(series[test], soil[test]) * sd + mu
rmse = (p - y[test]).pow(2).mean().sqrt().item()
print(f"test RMSE {rmse:.3f} t/ha  R2 {1 - rmse ** 2 / y[test].var().item():.3f}")
