import argparse
import numpy as np
import torch
import torch.nn as nn


def cohort(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 10))
    age = x[:, 0]
    hazard = 0.9 * age + 0.7 * x[:, 1] * (x[:, 2] > 0) - 0.8 * x[:, 3]
    life = rng.exponential(1.0, n) * np.exp(-hazard) * 12
    censor = rng.exponential(30.0, n)
    time = np.minimum(life, censor)
    event = (life <= censor).astype(np.float32)
    to = lambda a: torch.from_numpy(a.astype(np.float32))
    return to(x), to(time), to(event)


class RiskNet(nn.Module):
    def __init__(self, d, hidden=32, dropout=0.1):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, hidden), nn.ReLU(), nn.Dropout(dropout),
                                 nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


def cox_loss(risk, time, event):
    """Negative Breslow partial log-likelihood per event."""
    order = torch.argsort(time)
    risk, event = risk[order], event[order]
    log_cum = torch.logcumsumexp(risk, dim=0)
    return -((risk - log_cum) * event).sum() / event.sum().clamp(min=1)


@torch.no_grad()
def concordance(model, x, time, event):
    model.eval()
    risk = model(x)
    comparable = (time[:, None] < time[None, :]) & (event[:, None] == 1)
    higher = (risk[:, None] > risk[None, :]).float() + 0.5 * (risk[:, None] == risk[None, :]).float()
    return (higher * comparable).sum().item() / comparable.sum().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=12)
    ap.add_argument("--batch-size", type=int, default=128)
    ap.add_argument("--lr", type=float, default=2e-3)
    args = ap.parse_args()
    torch.manual_seed(11)
    train, val = cohort(2000, 1), cohort(600, 2)
    x, time, event = train
    print(f"events: train {event.mean():.2f} val {val[2].mean():.2f}")
    model = RiskNet(x.size(1))
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-3)
    for epoch in range(args.epochs):
        model.train()
        losses = []
        for idx in torch.randperm(len(x)).split(args.batch_size):
            loss = cox_loss(model(x[idx]), time[idx], event[idx])
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            losses.append(loss.item())
        print(f"epoch {epoch:2d} nll {np.mean(losses):.4f} val C-index {concordance(model, *val):.4f}")


if __name__ == "__main__":
    main()
