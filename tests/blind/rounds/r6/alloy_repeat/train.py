import sys
import numpy as np
import torch
from torch import nn

FOLDER = sys.argv[1]
CFG = dict(hidden=96, lr=1e-3, epochs=60, batch=32, seed=6)
torch.manual_seed(CFG["seed"])


def table(name):
    a = np.loadtxt(f"{FOLDER}/{name}.csv", delimiter=",", skiprows=1).astype(np.float32)
    return torch.from_numpy(a[:, :-1]), torch.from_numpy(a[:, -1:])


x, y = table("train")
xv, yv = table("val")
xt, yt = table("test")
m, s = x.mean(0), x.std(0)
ym, ys = y.mean(), y.std()
x, xv, xt = [(q - m) / s for q in (x, xv, xt)]


class HardnessNet(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.inp = nn.Linear(d, h)
        self.mid = nn.Linear(h, h)
        self.out = nn.Linear(h, 1)

    def forward(self, z):
        h = torch.relu(self.inp(z))
        h = h + torch.relu(self.mid(h))
        return self.out(h)


net = HardnessNet(x.shape[1], CFG["hidden"])
opt = torch.optim.AdamW(net.parameters(), lr=CFG["lr"], weight_decay=1e-2)


def metrics(a, b):
    net.eval()
    with torch.no_grad():
        p = net(a) * ys + ym
    return (p - b).abs().mean().item(), (1 - (p - b).pow(2).sum() / (b - b.mean()).pow(2).sum()).item()


best_mae, best, best_ep = 1e9, None, 0
for ep in range(1, CFG["epochs"] + 1):
    net.train()
    order = torch.randperm(len(x))
    run = 0.0
    for lo in range(0, len(x), CFG["batch"]):
        b = order[lo:lo + CFG["batch"]]
        loss = nn.functional.smooth_l1_loss(net(x[b]), (y[b] - ym) / ys)
        opt.zero_grad()
        loss.backward()
        opt.step()
        run += loss.item() * len(b)
    mae, r2 = metrics(xv, yv)
    if mae < best_mae:
        best_mae, best, best_ep = mae, {k: v.clone() for k, v in net.state_dict().items()}, ep
    if ep % 4 == 0:
        print(f"ep {ep:3d} train {run / len(x):.4f} val MAE {mae:.1f} HV r2 {r2:.3f}")
    if ep - best_ep >= 8:
        break
net.load_state_dict(best)
print("held-out MAE %.1f HV  r2 %.3f" % metrics(xt, yt))
