"""Aqueous solubility (log S) from descriptors and measurement conditions."""
import sys
import numpy as np
import torch
import torch.nn as nn

folder = sys.argv[1]
torch.manual_seed(0)


def read(name):
    path = f"{folder}/{name}.csv"
    with open(path) as f:
        cols = f.readline().strip().split(",")
    a = np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.float32)
    return cols, torch.from_numpy(a[:, :-1]), torch.from_numpy(a[:, -1])


cols, x_tr, y_tr = read("train")
_, x_va, y_va = read("val")
_, x_te, y_te = read("test")
mu, sd = x_tr.mean(0), x_tr.std(0)
y_mu, y_sd = y_tr.mean(), y_tr.std()
x_tr, x_va, x_te = ((x - mu) / sd for x in (x_tr, x_va, x_te))
t_tr = (y_tr - y_mu) / y_sd

net = nn.Sequential(nn.Linear(x_tr.shape[1], 48), nn.SiLU(), nn.Linear(48, 48), nn.SiLU(), nn.Linear(48, 1))
opt = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-3)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=40)


@torch.no_grad()
def rmse(x, y):
    net.eval()
    pred = net(x)[:, 0] * y_sd + y_mu
    err = (pred - y).pow(2).mean()
    return err.sqrt().item(), (1 - err / y.var()).item()


best, keep = float("inf"), None
for epoch in range(40):
    net.train()
    tot = 0.0
    for idx in torch.randperm(len(x_tr)).split(32):
        loss = nn.functional.mse_loss(net(x_tr[idx])[:, 0], t_tr[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        tot += loss.item() * len(idx)
    sched.step()
    r, r2 = rmse(x_va, y_va)
    if r < best:
        best, keep = r, {k: v.clone() for k, v in net.state_dict().items()}
    if epoch % 5 == 4:
        print(f"epoch {epoch + 1:2d} train mse {tot / len(x_tr):.4f} val rmse {r:.3f} r2 {r2:.3f}")

net.load_state_dict(keep)
torch.save({"net": keep, "mu": mu, "sd": sd, "cols": cols}, "/tmp/solub.pt")
print("test rmse %.3f  r2 %.3f" % rmse(x_te, y_te))
