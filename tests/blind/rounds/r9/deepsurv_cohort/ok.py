"""Cox proportional-hazards network on a follow-up cohort."""
import argparse

import numpy as np
import torch
import torch.nn as nn

COVARIATES = ["age", "sbp", "bmi", "smoker", "ldl", "crp", "egfr", "sex"]


def simulate_cohort(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, len(COVARIATES))).astype(np.float32)
    x[:, 3] = rng.random(n) < 0.3
    x[:, 7] = rng.random(n) < 0.5
    log_risk = 0.9 * x[:, 0] + 0.5 * x[:, 1] * x[:, 3] + 0.8 * x[:, 3] + 0.4 * x[:, 5] ** 2 - 0.5 * x[:, 6]
    event_time = rng.exponential(np.exp(-log_risk) * 10)
    censor = rng.uniform(2, 25, n)
    years = np.minimum(event_time, censor).astype(np.float32)
    died = (event_time <= censor).astype(np.float32)
    return torch.from_numpy(x), torch.from_numpy(years), torch.from_numpy(died)


class RiskNet(nn.Module):
    def __init__(self, d_in, hidden=48, p=0.1):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(d_in, hidden), nn.SELU(), nn.Dropout(p),
            nn.Linear(hidden, hidden), nn.SELU(), nn.Dropout(p),
            nn.Linear(hidden, 1, bias=False))

    def forward(self, x):
        return self.layers(x).squeeze(-1)


def cox_loss(log_h, years, died):
    """Negative log partial likelihood (Breslow)."""
    order = torch.argsort(years, descending=True)
    log_h, died = log_h[order], died[order]
    log_risk_set = torch.logcumsumexp(log_h, dim=0)
    return -((log_h - log_risk_set) * died).sum() / died.sum().clamp(min=1)


def concordance(log_h, years, died):
    """Harrell's C over all comparable pairs."""
    earlier = (years[:, None] < years[None, :]) & (died[:, None] > 0)
    diff = log_h[:, None] - log_h[None, :]
    score = (diff > 0).float() + 0.5 * (diff == 0).float()
    return (score * earlier).sum().item() / earlier.sum().item()


@torch.no_grad()
def evaluate(net, cohort):
    net.eval()
    x, years, died = cohort
    log_h = net(x)
    return cox_loss(log_h, years, died).item(), concordance(log_h, years, died)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=30)
    ap.add_argument("--batch-size", type=int, default=128)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--seed", type=int, default=5)
    args = ap.parse_args()
    torch.manual_seed(args.seed)

    train = simulate_cohort(2000, seed=10)
    valid = simulate_cohort(600, seed=11)
    mean, std = train[0].mean(0), train[0].std(0)
    train = ((train[0] - mean) / std, *train[1:])
    valid = ((valid[0] - mean) / std, *valid[1:])
    print(f"train events {int(train[2].sum())}/{len(train[2])}  valid events {int(valid[2].sum())}/{len(valid[2])}")

    net = RiskNet(len(COVARIATES))
    opt = torch.optim.AdamW(net.parameters(), lr=args.lr, weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs)
    for epoch in range(1, args.epochs + 1):
        net.train()
        perm = torch.randperm(len(train[0]))
        total, batches = 0.0, 0
        for idx in perm.split(args.batch_size):
            x, years, died = (a[idx] for a in train)
            loss = cox_loss(net(x), years, died)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total, batches = total + loss.item(), batches + 1
        sched.step()
        if epoch % 5 == 0:
            vl, c = evaluate(net, valid)
            print(f"epoch {epoch:3d}  train nll {total / batches:.4f}  valid nll {vl:.4f}  C-index {c:.4f}")

    _, c = evaluate(net, valid)
    print(f"final held-out C-index {c:.4f}")
    with torch.no_grad():
        probe = torch.zeros(2, len(COVARIATES))
        probe[1, 0] = 2.0
        h = net(probe)
        print(f"hazard ratio, age +2 SD: {(h[1] - h[0]).exp().item():.2f}")


if __name__ == "__main__":
    main()
