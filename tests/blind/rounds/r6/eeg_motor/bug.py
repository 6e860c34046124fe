import json
import math
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

cfg = json.loads("""{
  "seed": 3, "fs": 128, "n_ch": 8, "win": 128, "n_trials": 900,
  "filters": 12, "kernel": 25, "lr": 0.002, "epochs": 10, "batch": 32
}""")
np.random.seed(cfg["seed"])
torch.manual_seed(cfg["seed"])

# ---------------------------------------------------------------- recordings
# amplifier delivers samples frame by frame: (trial, time, channel), as one flat int16 stream
n, T, C = cfg["n_trials"], cfg["win"], cfg["n_ch"]
t = np.arange(T) / cfg["fs"]
y = np.random.randint(0, 2, n)
raw = np.cumsum(np.random.randn(n, T, C), axis=1)
raw -= raw.mean(axis=1, keepdims=True)
raw *= 2.0
phase = np.random.rand(n, 1) * 2 * math.pi
mu = np.sin(2 * math.pi * 11 * t[None] + phase)
lateral = np.where(y == 0, 1.0, 0.35)[:, None]
raw[:, :, 2] += 3.2 * mu * lateral
raw[:, :, 5] += 3.2 * mu * (1.35 - lateral)
stream = np.round(raw * 50).clip(-32000, 32000).astype(np.int16).reshape(-1)

# ---------------------------------------------------------------- epochs
X = torch.from_numpy(stream.astype(np.float32) / 50)
X = X.view(n, C, T)
Y = torch.from_numpy(y).long()
i_tr, i_va, i_te = torch.randperm(n).split([600, 150, 150])
sd = X[i_tr].std(dim=(0, 2), keepdim=True)
X = X / sd


class ShallowNet(nn.Module):
    def __init__(self, n_ch, k, f):
        super().__init__()
        self.temporal = nn.Conv2d(1, f, (1, k), padding=(0, k // 2), bias=False)
        self.spatial = nn.Conv2d(f, f, (n_ch, 1), bias=False)
        self.bn = nn.BatchNorm2d(f)
        self.drop = nn.Dropout(0.3)
        self.head = nn.Linear(f * 7, 2)

    def forward(self, x):
        h = self.bn(self.spatial(self.temporal(x[:, None])))
        h = F.avg_pool2d(h ** 2, (1, 32), (1, 16))
        h = torch.log(h.clamp(min=1e-5)).flatten(1)
        return self.head(self.drop(h))


net = ShallowNet(C, cfg["kernel"], cfg["filters"])
opt = torch.optim.AdamW(net.parameters(), lr=cfg["lr"], weight_decay=1e-3)


@torch.no_grad()
def accuracy(idx):
    net.eval()
    return (net(X[idx]).argmax(1) == Y[idx]).float().mean().item()


best_va, best = -1.0, None
for ep in range(cfg["epochs"]):
    net.train()
    order = i_tr[torch.randperm(len(i_tr))]
    running = 0.0
    for b in order.split(cfg["batch"]):
        loss = F.cross_entropy(net(X[b]), Y[b])
        opt.zero_grad()
        loss.backward()
        opt.step()
        running += loss.item() * len(b)
    va = accuracy(i_va)
    if va > best_va:
        best_va, best = va, {k: v.clone() for k, v in net.state_dict().items()}
    print(f"ep {ep:2d}  loss {running / len(order):.4f}  val acc {va:.3f}")

net.load_state_dict(best)
print(f"best val {best_va:.3f}  test acc {accuracy(i_te):.3f}")
