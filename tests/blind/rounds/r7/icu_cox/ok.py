"""Neural Cox model for time to death after ICU discharge."""
import numpy as np
import torch
import torch.nn as nn

SEED = 11
COVARIATES = ["age", "sofa", "lactate", "creatinine", "bilirubin", "gcs", "map", "fio2", "bmi", "charlson"]
EPOCHS, BATCH, LR = 25, 128, 3e-3


def load_cohort(n, rng):
    x = rng.normal(size=(n, len(COVARIATES))).astype(np.float32)
    lin = 0.8 * x[:, 0] + 0.6 * x[:, 1] + 0.5 * np.tanh(2 * x[:, 2]) - 0.5 * x[:, 5] + 0.4 * x[:, 3] * x[:, 9]
    death = rng.exponential(365.0 * np.exp(-lin))
    censor = rng.uniform(60, 1100, size=n)
    time = np.minimum(death, censor).astype(np.float32)
    event = (death <= censor).astype(np.float32)
    return x, time, event


class RiskNet(nn.Module):
    def __init__(self, d_in, hidden=32, p=0.1):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(d_in, hidden), nn.ReLU(), nn.Dropout(p),
            nn.Linear(hidden, hidden), nn.ReLU(),
            nn.Linear(hidden, 1),
        )

    def forward(self, x):
        return self.body(x).squeeze(-1)


def cox_loss(log_risk, time, event):
    order = torch.argsort(time, descending=True)
    log_risk, event = log_risk[order], event[order]
    log_at_risk = torch.logcumsumexp(log_risk, dim=0)
    return -((log_risk - log_at_risk) * event).sum() / event.sum().clamp(min=1.0)


@torch.no_grad()
def concordance(model, x, time, event):
    model.eval()
    risk = model(x)
    comparable = (time[:, None] < time[None, :]) & (event[:, None] > 0)
    higher = (risk[:, None] > risk[None, :]).float() + 0.5 * (risk[:, None] == risk[None, :]).float()
    return (higher * comparable).sum().item() / comparable.sum().item()


def main():
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    train = load_cohort(2000, rng)
    val = load_cohort(600, rng)
    mu, sd = train[0].mean(0), train[0].std(0)
    xt, tt, et = torch.from_numpy((train[0] - mu) / sd), torch.from_numpy(train[1]), torch.from_numpy(train[2])
    xv, tv, ev = torch.from_numpy((val[0] - mu) / sd), torch.from_numpy(val[1]), torch.from_numpy(val[2])
    print(f"train {len(xt)} patients, {int(et.sum())} deaths; val {len(xv)}, {int(ev.sum())} deaths")

    model = RiskNet(len(COVARIATES))
    opt = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=1e-3)
    for epoch in range(EPOCHS):
        model.train()
        perm = torch.randperm(len(xt))
        total, n = 0.0, 0
        for i in range(0, len(perm), BATCH):
            idx = perm[i:i + BATCH]
            loss = cox_loss(model(xt[idx]), tt[idx], et[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total, n = total + loss.item(), n + 1
        if epoch % 4 == 0 or epoch == EPOCHS - 1:
            c = concordance(model, xv, tv, ev)
            print(f"epoch {epoch:2d} partial-likelihood {total / n:.4f} val C-index {c:.4f}")


if __name__ == "__main__":
    main()
