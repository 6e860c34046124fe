"""Temporal convolution net: 12-step temperature forecast, cosine schedule with warm-up."""
import math
import numpy as np
import torch
from torch import nn

CFG = dict(context=72, horizon=12, channels=24, epochs=12, batch=64, lr=6e-3, warmup=2, seed=5)
torch.manual_seed(CFG["seed"])
rng = np.random.default_rng(CFG["seed"])


def simulate(n=2600):
    t = np.arange(n)
    front = np.convolve(rng.normal(size=n + 40), np.exp(-np.arange(40) / 12.0), "same")[:n]
    temp = 10 + 6 * np.sin(2 * math.pi * t / 24) * (1 + 0.3 * np.sin(2 * math.pi * t / 360)) + 1.2 * front
    pressure = 1013 - 3 * np.roll(front, -6) + rng.normal(0, 0.5, n)
    humidity = 60 - 1.5 * temp + rng.normal(0, 3, n)
    return np.stack([temp, pressure, humidity], 0).astype(np.float32)


class TCN(nn.Module):
    def __init__(self, n_in, ch, horizon):
        super().__init__()
        layers, width = [], n_in
        for dilation in (1, 2, 4, 8):
            layers += [nn.ConstantPad1d((2 * dilation, 0), 0.0), nn.Conv1d(width, ch, 3, dilation=dilation), nn.ReLU()]
            width = ch
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(ch, horizon)

    def forward(self, x):
        return self.head(self.body(x)[:, :, -1])


data = simulate()
split = 2000
mu, sd = data[:, :split].mean(1, keepdims=True), data[:, :split].std(1, keepdims=True)
z = torch.tensor((data - mu) / sd)


def gather(series, starts):
    c, h = CFG["context"], CFG["horizon"]
    x = torch.stack([series[:, s:s + c] for s in starts])
    y = torch.stack([series[0, s + c:s + c + h] for s in starts])
    return x, y


span = CFG["context"] + CFG["horizon"]
train_x, train_y = gather(z, range(0, split - span + 1, 2))
val_x, val_y = gather(z, range(split, z.shape[1] - span + 1))

net = TCN(3, CFG["channels"], CFG["horizon"])
opt = torch.optim.AdamW(net.parameters(), lr=CFG["lr"], weight_decay=1e-4)


def lr_factor(epoch):
    if epoch < CFG["warmup"]:
        return (epoch + 1) / (CFG["warmup"] + 1)
    progress = (epoch - CFG["warmup"]) / (CFG["epochs"] - CFG["warmup"])
    return 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))


schedule = torch.optim.lr_scheduler.LambdaLR(opt, lr_factor)
for epoch in range(CFG["epochs"]):
    net.train()
    losses = []
    for idx in torch.randperm(len(train_x)).split(CFG["batch"]):
        x, y = train_x[idx], train_y[idx]
        loss = nn.functional.smooth_l1_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    schedule.step()
    net.eval()
    with torch.no_grad():
        mae = (net(val_x) - val_y).abs().mean().item() * sd[0, 0]
    if epoch % 3 == 0 or epoch == CFG["epochs"] - 1:
        print(f"epoch {epoch:2d} train {np.mean(losses):.4f} val MAE {mae:.2f} degC")
