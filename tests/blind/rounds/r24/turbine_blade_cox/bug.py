"""Time to leading-edge repair of wind turbine blades: neural Cox model on inspection histories."""
import argparse
import math

import numpy as np
import torch
import torch.nn as nn

COLUMNS = ["tip_speed", "rain_hours", "hail_days", "coating_age", "salt", "sand", "pitch_std", "vib_rms",
           "length_m", "altitude", "park_visits", "contract_left"]


def build_fleet(n, seed):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, len(COLUMNS)))
    z[:, 7] = 0.6 * z[:, 0] + 0.8 * z[:, 7]
    erosion = (0.7 * z[:, 0] * (z[:, 1] > 0) + 0.5 * z[:, 1] + 0.45 * np.tanh(z[:, 2]) + 0.4 * z[:, 3]
               + 0.35 * z[:, 4] * (z[:, 3] > 0) + 0.3 * np.maximum(z[:, 5], 0))
    repair = 60 * np.exp(-0.75 * erosion) * rng.weibull(1.6, n)
    # blades leave the study when the service contract ends or the park is sold
    leave = 16 * np.exp(0.8 * z[:, 11] - 0.7 * z[:, 10] + 0.4 * z[:, 8]) * rng.weibull(1.5, n)
    time = np.minimum(repair, leave)
    event = (repair <= leave).astype(np.float32)
    raw = z * rng.uniform(0.5, 20, z.shape[1]) + rng.uniform(-5, 50, z.shape[1])
    return raw.astype(np.float32), time.astype(np.float32), event


def cox_loss(risk, time, event):
    """Negative log partial likelihood (Breslow) of one batch."""
    order = torch.argsort(time, descending=True)
    risk = risk[order]
    log_at_risk = torch.logcumsumexp(risk, dim=0)
    return -((risk - log_at_risk) * event).sum() / event.sum().clamp(min=1)


def concordance(risk, time, event):
    r, t, e = (np.asarray(v) for v in (risk, time, event))
    usable = (t[:, None] < t[None, :]) & (e[:, None] == 1)
    diff = r[:, None] - r[None, :]
    return ((diff > 0) + 0.5 * (diff == 0))[usable].mean()


class RiskNet(nn.Module):
    def __init__(self, d, width, drop):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(d, width), nn.SELU(), nn.AlphaDropout(drop),
            nn.Linear(width, width), nn.SELU(), nn.AlphaDropout(drop),
        )
        self.out = nn.Linear(width, 1, bias=False)

    def forward(self, x):
        return self.out(self.body(x)).squeeze(-1)


def run(args):
    torch.manual_seed(args.seed)
    x, time, event = build_fleet(args.blades, args.seed)
    split = np.random.default_rng(args.seed + 1).permutation(len(x))
    n_tr = int(0.7 * len(x))
    tr, va = split[:n_tr], split[n_tr:]
    mu, sd = x[tr].mean(0), x[tr].std(0)
    x = torch.from_numpy((x - mu) / sd)
    time, event = torch.from_numpy(time), torch.from_numpy(event)
    print(f"{len(tr)} training blades, {int(event[tr].sum())} repairs; {len(va)} validation blades, {int(event[va].sum())} repairs")

    net = RiskNet(x.shape[1], args.width, args.drop)
    opt = torch.optim.AdamW(net.parameters(), lr=args.lr, weight_decay=0.02)
    steps = args.epochs * math.ceil(len(tr) / args.batch)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=args.lr, total_steps=steps)
    for epoch in range(1, args.epochs + 1):
        net.train()
        losses = []
        for idx in torch.from_numpy(tr)[torch.randperm(len(tr))].split(args.batch):
            loss = cox_loss(net(x[idx]), time[idx], event[idx])
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 2.0)
            opt.step()
            sched.step()
            losses.append(loss.item())
        if epoch % 5 == 0:
            net.eval()
            with torch.no_grad():
                c = concordance(net(x[va]), time[va], event[va])
            print(f"epoch {epoch:3d}  loss {np.mean(losses):.4f}  val c-index {c:.4f}")
    return c


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--blades", type=int, default=4000)
    ap.add_argument("--width", type=int, default=48)
    ap.add_argument("--drop", type=float, default=0.1)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--batch", type=int, default=256)
    ap.add_argument("--epochs", type=int, default=30)
    ap.add_argument("--seed", type=int, default=11)
    print(f"validation c-index {run(ap.parse_args()):.4f}")
