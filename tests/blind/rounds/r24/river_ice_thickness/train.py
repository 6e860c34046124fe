# River ice thickness from one survey row: residual MLP with a Gaussian likelihood.
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn


@dataclass
class Setup:
    folder: Path
    features: tuple = ("air_temp_c", "snow_cm", "velocity_ms", "width_m", "frost_deg_h")
    seed: int = 6
    val_sites: int = 6
    width: int = 64
    blocks: int = 2
    lr: float = 2e-3
    batch: int = 64
    epochs: int = 50


def read_surveys(setup):
    table = np.genfromtxt(setup.folder / "surveys.csv", delimiter=",", names=True, dtype=None, encoding="utf-8")
    x = np.stack([table[c].astype(np.float64) for c in setup.features], 1)
    return x, table["thickness_cm"].astype(np.float64), table["site"]


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.f = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.SiLU(), nn.Dropout(0.05), nn.Linear(2 * d, d))

    def forward(self, h):
        return h + self.f(h)


class IceModel(nn.Module):
    def __init__(self, d_in, width, blocks):
        super().__init__()
        self.inp = nn.Linear(d_in, width)
        self.blocks = nn.Sequential(*[Block(width) for _ in range(blocks)])
        self.out = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2))

    def forward(self, x):
        mean, log_var = self.out(self.blocks(self.inp(x))).unbind(1)
        return mean, log_var.clamp(-6, 3)


def nll(mean, log_var, y):
    return 0.5 * (log_var + (y - mean) ** 2 / log_var.exp()).mean()


def train(setup):
    torch.manual_seed(setup.seed)
    x, y, site = read_surveys(setup)
    sites = np.random.default_rng(setup.seed).permutation(np.unique(site))
    val = np.isin(site, sites[: setup.val_sites])
    mu, sd = x[~val].mean(0), x[~val].std(0)
    y_mu, y_sd = y[~val].mean(), y[~val].std()
    x = torch.tensor((x - mu) / sd, dtype=torch.float32)
    z = torch.tensor((y - y_mu) / y_sd, dtype=torch.float32)
    x_tr, z_tr, x_va, y_va = x[~val], z[~val], x[val], torch.tensor(y[val])
    print(f"{len(x_tr)} surveys for training, {len(x_va)} of {setup.val_sites} other sites for validation")

    model = IceModel(x.shape[1], setup.width, setup.blocks)
    opt = torch.optim.AdamW(model.parameters(), lr=setup.lr, weight_decay=0.02)
    steps = setup.epochs * -(-len(x_tr) // setup.batch)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=setup.lr, total_steps=steps)

    @torch.no_grad()
    def validate():
        model.eval()
        mean, _ = model(x_va)
        return (mean * y_sd + y_mu - y_va).abs().mean().item()

    for epoch in range(1, setup.epochs + 1):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x_tr)).split(setup.batch):
            loss = nll(*model(x_tr[idx]), z_tr[idx])
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            total += loss.item() * len(idx)
        if epoch % 10 == 0:
            print(f"epoch {epoch:3d}  nll {total / len(x_tr):7.4f}  val MAE {validate():.2f} cm")
    return validate()


if __name__ == "__main__":
    print(f"validation MAE {train(Setup(Path(sys.argv[1]))):.2f} cm")
