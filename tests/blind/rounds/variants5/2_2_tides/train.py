"""One-step-ahead sea level forecast with a small causal convolution net."""
import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn


def windows(series, context, horizon):
    starts = np.arange(len(series) - context - horizon + 1)
    x = np.stack([series[s:s + context] for s in starts])
    y = np.stack([series[s + context + horizon - 1, 0] for s in starts])
    return torch.tensor(x, dtype=torch.float32).transpose(1, 2), torch.tensor(y, dtype=torch.float32)


class CausalBlock(nn.Module):
    def __init__(self, c_in, c_out, dilation):
        super().__init__()
        self.pad = 2 * dilation
        self.conv = nn.Conv1d(c_in, c_out, 3, dilation=dilation)
        self.skip = nn.Conv1d(c_in, c_out, 1)

    def forward(self, x):
        return torch.relu(self.conv(nn.functional.pad(x, (self.pad, 0)))) + self.skip(x)


class TideNet(nn.Module):
    def __init__(self, c_in, width, levels):
        super().__init__()
        self.blocks = nn.Sequential(*[CausalBlock(c_in if i == 0 else width, width, 2 ** i) for i in range(levels)])
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        return self.head(self.blocks(x)[:, :, -1]).squeeze(-1)


@torch.no_grad()
def rmse(net, x, y, scale):
    net.eval()
    err = torch.cat([net(x[i:i + 512]) - y[i:i + 512] for i in range(0, len(x), 512)])
    return err.pow(2).mean().sqrt().item() * scale


folder = Path(sys.argv[1])
hp = json.loads((folder / "hparams.json").read_text())
torch.manual_seed(hp["seed"])
station = np.load(folder / "station.npz")
series = np.stack([station["level_cm"], station["pressure_hpa"], station["wind_ms"]], axis=1).astype(np.float64)
n_train, n_valid = int(0.7 * len(series)), int(0.15 * len(series))
mean, std = series[:n_train].mean(0), series[:n_train].std(0)
series = (series - mean) / std
train_x, train_y = windows(series[:n_train], hp["context"], hp["horizon"])
valid_x, valid_y = windows(series[n_train:n_train + n_valid], hp["context"], hp["horizon"])
test_x, test_y = windows(series[n_train + n_valid:], hp["context"], hp["horizon"])

net = TideNet(series.shape[1], hp["width"], hp["levels"])
opt = torch.optim.Adam(net.parameters(), lr=hp["peak_lr"])
total_steps = hp["epochs"] * (len(train_x) // hp["batch_size"])


def factor(step):
    if step < hp["warmup_steps"]:
        return (step + 1) / hp["warmup_steps"]
    left = (total_steps - step) / max(1, total_steps - hp["warmup_steps"])
    return max(0.02, left)


sched = torch.optim.lr_scheduler.LambdaLR(opt, factor)
for epoch in range(hp["epochs"]):
    net.train()
    perm = torch.randperm(len(train_x))
    seen = 0.0
    for b in range(len(train_x) // hp["batch_size"]):
        rows = perm[b * hp["batch_size"]:(b + 1) * hp["batch_size"]]
        loss = nn.functional.mse_loss(net(train_x[rows]), train_y[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        seen += loss.item()
    print(f"epoch {epoch + 1} train {seen / (b + 1):.4f} valid rmse {rmse(net, valid_x, valid_y, std[0]):.2f} cm")
print(f"test rmse {rmse(net, test_x, test_y, std[0]):.3f} cm")
