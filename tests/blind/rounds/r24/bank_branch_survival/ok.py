"""How long will a bank branch stay open?  Cox model with a neural risk score, evaluated by concordance."""
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn


@dataclass
class Config:
    branches: int = 3200
    train_share: float = 0.7
    hidden: int = 48
    batch: int = 256
    epochs: int = 30
    lr: float = 3e-3
    weight_decay: float = 1e-3
    seed: int = 2024


FORMATS = ["full_service", "counter_in_shop", "advisory", "self_service"]


def make_branches(n, rng):
    fmt = rng.choice(4, n, p=[0.45, 0.2, 0.2, 0.15])
    deposits = rng.lognormal(3.2, 0.6, n)
    footfall = np.exp(0.5 * np.log(deposits) + rng.normal(2.5, 0.5, n))
    rent = rng.gamma(4, 6, n)
    staff = np.clip(rng.poisson(3 + 0.06 * deposits), 1, None)
    rivals_1km = rng.poisson(2.5, n)
    over65 = rng.beta(4, 12, n)
    # counters in shops and self-service points are recent formats, so their follow-up is short
    opened = np.where(np.isin(fmt, [1, 3]), rng.uniform(9, 14.5, n), rng.uniform(0, 12, n))
    opened = np.clip(opened + 1.5 * (np.log(footfall) - 4.1), 0, 14.7)
    z = (-0.9 * (np.log(footfall) - 4.1) + 0.05 * (rent - 24) + 0.12 * (rivals_1km - 2.5) * (fmt == 0)
         - 3.0 * (over65 - 0.25) + np.array([0.2, 0.7, -0.5, 0.5])[fmt] + 0.5 * np.sin(staff / 2))
    life = 19 * (rng.exponential(1, n) / np.exp(z)) ** (1 / 1.4)
    follow_up = 15 - opened
    time, closed = np.minimum(life, follow_up), life <= follow_up
    num = np.stack([np.log(deposits), np.log(footfall), rent, staff, rivals_1km, over65], 1)
    return num.astype(np.float32), fmt, time.astype(np.float32), closed


class RiskNet(nn.Module):
    def __init__(self, n_num, hidden):
        super().__init__()
        self.format = nn.Embedding(len(FORMATS), 4)
        self.net = nn.Sequential(nn.Linear(n_num + 4, hidden), nn.SiLU(), nn.Dropout(0.1),
                                 nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 1, bias=False))

    def forward(self, num, fmt):
        return self.net(torch.cat([num, self.format(fmt)], 1)).squeeze(1)


def cox_loss(risk, time, event):
    order = torch.argsort(time, descending=True)
    risk, event = risk[order], event[order]
    log_at_risk = torch.logcumsumexp(risk, 0)
    return -((risk - log_at_risk) * event).sum() / event.sum().clamp(min=1)


def concordance(risk, time, event):
    earlier = (time[:, None] < time[None, :]) & event[:, None].bool()
    diff = risk[:, None] - risk[None, :]
    good = (diff > 0).float() + 0.5 * (diff == 0).float()
    return (good[earlier].sum() / earlier.sum()).item()


def main(cfg=Config()):
    torch.manual_seed(cfg.seed)
    rng = np.random.default_rng(cfg.seed)
    num, fmt, time, closed = make_branches(cfg.branches, rng)
    perm = rng.permutation(cfg.branches)
    cut = int(cfg.train_share * cfg.branches)
    tr, va = perm[:cut], perm[cut:]
    num = (num - num[tr].mean(0)) / num[tr].std(0)
    num, fmt = torch.from_numpy(num), torch.from_numpy(fmt)
    time, event = torch.from_numpy(time), torch.from_numpy(closed.astype(np.float32))
    tr, va = torch.from_numpy(tr), torch.from_numpy(va)
    print(f"{len(tr)} training branches, {event[tr].mean():.0%} closed; {len(va)} validation branches")

    model = RiskNet(num.shape[1], cfg.hidden)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=cfg.weight_decay)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, cfg.epochs)
    for epoch in range(1, cfg.epochs + 1):
        model.train()
        losses = []
        for idx in tr[torch.randperm(len(tr))].split(cfg.batch):
            loss = cox_loss(model(num[idx], fmt[idx]), time[idx], event[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        sched.step()
        if epoch % 5 == 0:
            model.eval()
            with torch.no_grad():
                risk = model(num[va], fmt[va])
            c = concordance(risk, time[va], event[va])
            print(f"epoch {epoch:3d}  partial likelihood {np.mean(losses):.4f}  validation C-index {c:.4f}")


if __name__ == "__main__":
    main()
