# Predict the efficiency (COP) of building chillers with a small mixture of experts.
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Config:
    n_rows: int = 7500
    n_experts: int = 5
    width: int = 32
    epochs: int = 10
    batch: int = 128
    lr: float = 3e-3
    seed: int = 21


COLUMNS = ["load_ratio", "t_chilled", "t_condenser", "flow", "valve", "humidity", "age_years", "stage"]


def simulate(cfg):
    g = torch.Generator().manual_seed(cfg.seed)
    n = cfg.n_rows
    load = torch.rand(n, generator=g)
    t_ch = 5 + 5 * torch.rand(n, generator=g)
    t_co = 18 + 17 * torch.rand(n, generator=g)
    flow = 40 + 30 * torch.rand(n, generator=g)
    valve = torch.rand(n, generator=g)
    hum = 30 + 60 * torch.rand(n, generator=g)
    age = 20 * torch.rand(n, generator=g)
    stage = torch.randint(0, 3, (n,), generator=g).float()
    lift = t_co - t_ch
    carnot = (t_ch + 273.15) / lift
    part = torch.where(stage == 0, 1 - (load - 0.6) ** 2 * 2.2,
                       torch.where(stage == 1, 0.5 + 0.5 * torch.sin(3 * load), 0.9 - 0.4 * (load - 0.3).abs()))
    cop = 0.45 * carnot * part * (1 - 0.012 * age) + 0.3 * torch.cos(6 * valve) - 0.01 * (hum - 60)
    cop = cop + 0.15 * torch.randn(n, generator=g)
    x = torch.stack([load, t_ch, t_co, flow, valve, hum, age, stage], 1)
    return x, cop


class Mixture(nn.Module):
    def __init__(self, n_in, cfg):
        super().__init__()
        self.gate = nn.Linear(n_in, cfg.n_experts)
        self.experts = [
            nn.Sequential(
                nn.Linear(n_in, cfg.width), nn.SiLU(),
                nn.Linear(cfg.width, cfg.width), nn.SiLU(),
                nn.Linear(cfg.width, 1),
            )
            for _ in range(cfg.n_experts)
        ]
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        w = self.gate(x).softmax(-1)
        votes = torch.cat([e(x) for e in self.experts], dim=-1)
        return (w * votes).sum(-1) + self.bias


def r_squared(model, x, y):
    model.eval()
    with torch.no_grad():
        resid = ((model(x) - y) ** 2).sum()
        return 1 - (resid / ((y - y.mean()) ** 2).sum()).item()


def run(cfg):
    torch.manual_seed(cfg.seed)
    x, y = simulate(cfg)
    order = torch.randperm(len(x))
    cut = int(0.8 * len(x))
    tr, va = order[:cut], order[cut:]
    mu, sd = x[tr].mean(0), x[tr].std(0)
    x = (x - mu) / sd
    y_mu, y_sd = y[tr].mean(), y[tr].std()
    y = (y - y_mu) / y_sd

    model = Mixture(len(COLUMNS), cfg)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=cfg.epochs)
    for epoch in range(cfg.epochs):
        model.train()
        perm = tr[torch.randperm(len(tr))]
        total = 0.0
        for idx in perm.split(cfg.batch):
            loss = nn.functional.mse_loss(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        sched.step()
        if epoch % 2 == 1:
            print(f"[{epoch + 1:02d}] mse {total / len(tr):.4f}  R2 valid {r_squared(model, x[va], y[va]):.4f}")
    print(f"R2 on held-out chillers: {r_squared(model, x[va], y[va]):.4f}")


if __name__ == "__main__":
    run(Config())
