"""DeepSurv-style proportional hazards network on a simulated oncology cohort."""
import argparse

import numpy as np
import torch
from torch import nn


def simulate_cohort(n, seed):
    rng = np.random.default_rng(seed)
    age = rng.normal(62, 10, n)
    stage = rng.integers(1, 5, n)
    ki67 = rng.beta(2, 5, n)
    treated = rng.integers(0, 2, n)
    labs = rng.normal(0, 1, (n, 8))
    log_h = (0.04 * (age - 62) + 0.55 * (stage - 2) + 2.0 * (ki67 - 0.28)
             - 0.8 * treated * (ki67 > 0.3) + 0.5 * labs[:, 0] * labs[:, 1] + 0.4 * labs[:, 2])
    t_event = rng.weibull(1.3, n) * 36 * np.exp(-log_h / 1.3)
    t_cens = rng.exponential(60, n)
    time = np.minimum(t_event, t_cens)
    event = (t_event <= t_cens).astype(np.float32)
    x = np.column_stack([age, stage, ki67, treated, labs]).astype(np.float32)
    return x, time.astype(np.float32), event


class RiskNet(nn.Module):
    def __init__(self, d_in, hidden, p_drop):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(d_in, hidden), nn.SELU(), nn.Dropout(p_drop),
            nn.Linear(hidden, hidden), nn.SELU(), nn.Dropout(p_drop),
            nn.Linear(hidden, 1, bias=False),
        )

    def forward(self, x):
        return self.layers(x).squeeze(-1)


def neg_partial_log_likelihood(log_risk, time, event):
    order = torch.argsort(time)
    log_risk, event = log_risk[order], event[order]
    log_denominator = torch.logcumsumexp(log_risk, dim=0)
    return -((log_risk - log_denominator) * event).sum() / event.sum().clamp(min=1.0)


def concordance(log_risk, time, event):
    """Harrell's C."""
    earlier = (time[:, None] < time[None, :]) & (event[:, None] == 1)
    higher = (log_risk[:, None] > log_risk[None, :]).float()
    tied = (log_risk[:, None] == log_risk[None, :]).float() * 0.5
    return ((higher + tied) * earlier).sum().item() / earlier.sum().item()


def iterate(n, batch_size, generator):
    perm = torch.randperm(n, generator=generator)
    for k in range(0, n - batch_size + 1, batch_size):
        yield perm[k:k + batch_size]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=70)
    ap.add_argument("--batch-size", type=int, default=256)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--hidden", type=int, default=48)
    ap.add_argument("--dropout", type=float, default=0.1)
    ap.add_argument("--weight-decay", type=float, default=1e-3)
    ap.add_argument("--seed", type=int, default=3)
    args = ap.parse_args()

    torch.manual_seed(args.seed)
    gen = torch.Generator().manual_seed(args.seed)
    x, time, event = simulate_cohort(4500, args.seed)
    idx = np.random.default_rng(args.seed).permutation(len(x))
    tr, te = idx[:3500], idx[3500:]
    mean, std = x[tr].mean(0), x[tr].std(0)
    x = (x - mean) / std
    x, time, event = torch.from_numpy(x), torch.from_numpy(time), torch.from_numpy(event)
    print(f"cohort: {len(tr)} train / {len(te)} test, {event.mean():.0%} events")

    model = RiskNet(x.shape[1], args.hidden, args.dropout)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=args.weight_decay)
    for epoch in range(1, args.epochs + 1):
        model.train()
        total, count = 0.0, 0
        for b in iterate(len(tr), args.batch_size, gen):
            rows = torch.from_numpy(tr)[b]
            loss = neg_partial_log_likelihood(model(x[rows]), time[rows], event[rows])
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            total += loss.item()
            count += 1
        if epoch % 10 == 0:
            print(f"epoch {epoch:3d} partial nll {total / count:.4f}")

    model.eval()
    with torch.no_grad():
        c_tr = concordance(model(x[tr]), time[tr], event[tr])
        c_te = concordance(model(x[te]), time[te], event[te])
    print(f"c-index train {c_tr:.4f}  test {c_te:.4f}")


if __name__ == "__main__":
    main()
