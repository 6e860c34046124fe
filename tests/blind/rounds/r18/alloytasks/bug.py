"""Predict yield strength, elongation and hardness of aluminium alloys from composition and temper.
Not every property was measured for every sample; missing measurements are NaN in the table."""
import numpy as np
import torch
from torch import nn

COLS = ["Si", "Fe", "Cu", "Mn", "Mg", "Zn", "solution_T", "age_T", "age_h"]
TASKS = ["yield_MPa", "elong_pct", "hardness_HB"]


def table(n, rng):
    comp = np.abs(rng.gamma(1.6, [0.4, 0.15, 1.0, 0.25, 0.8, 1.4], (n, 6)))
    sol = rng.uniform(440, 540, n)
    age = rng.uniform(100, 220, n)
    hrs = np.exp(rng.uniform(np.log(0.5), np.log(48), n))
    x = np.column_stack([comp, sol, age, hrs])
    solute = 18 * comp[:, 2] + 14 * comp[:, 4] + 11 * comp[:, 5] + 6 * comp[:, 0] + 5 * comp[:, 3]
    dose = np.log(hrs) + (age - 160) / 22
    peak = np.exp(-((dose - 2.0) / 2.2) ** 2)
    strength = 60 + solute * (1.2 + 2.6 * peak) + 0.15 * (sol - 490) + rng.normal(0, 8, n)
    elong = 26 - 0.05 * strength - 7 * comp[:, 1] - 2 * np.maximum(dose - 2, 0) + rng.normal(0, 0.8, n)
    hard = 18 + 0.3 * strength + 2 * comp[:, 0] + rng.normal(0, 3, n)
    return x, np.column_stack([strength, elong, hard])


class MultiTask(nn.Module):
    def __init__(self, n_in, width=64):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(n_in, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())
        self.heads = nn.ModuleDict({t: nn.Sequential(nn.Linear(width, 16), nn.SiLU(), nn.Linear(16, 1)) for t in TASKS})

    def forward(self, x):
        h = self.trunk(x)
        return torch.cat([self.heads[t](h) for t in TASKS], 1)


def multitask_loss(pred, target):
    seen = ~torch.isnan(target)
    err = (pred - torch.nan_to_num(target)) ** 2
    return err.sum(0).div(seen.sum(0).clamp(min=1)).mean()


def main():
    rng = np.random.default_rng(21)
    torch.manual_seed(21)
    x, y = table(2500, rng)
    xt, yt = table(600, rng)
    miss = rng.random(y.shape) < np.array([0.35, 0.55, 0.45])
    y[miss] = np.nan
    mx, sx = x.mean(0), x.std(0)
    my, sy = np.nanmean(y, 0), np.nanstd(y, 0)
    to = lambda a: torch.tensor(a, dtype=torch.float32)
    X, Y, XT = to((x - mx) / sx), to((y - my) / sy), to((xt - mx) / sx)

    net = MultiTask(len(COLS))
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-3)
    epochs, bs = 40, 100
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs)
    for ep in range(epochs):
        run = 0.0
        for idx in torch.randperm(len(X)).split(bs):
            loss = multitask_loss(net(X[idx]), Y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            run += loss.item() * len(idx)
        sched.step()
        if ep % 8 == 7:
            print(f"epoch {ep + 1} loss {run / len(X):.4f}")
    with torch.no_grad():
        p = net(XT).numpy() * sy + my
    r2 = 1 - ((p - yt) ** 2).sum(0) / ((yt - yt.mean(0)) ** 2).sum(0)
    for t, v, e in zip(TASKS, r2, np.abs(p - yt).mean(0)):
        print(f"{t:12s} R2 {v:.3f}  MAE {e:.2f}")
    print(f"mean test R2 {r2.mean():.4f}")


main()
