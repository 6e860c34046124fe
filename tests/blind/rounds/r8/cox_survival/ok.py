"""Neural Cox model for time to readmission, with concordance on held-out patients."""
import numpy as np
import torch
import torch.nn as nn

FEATURES = ["age", "creatinine", "lactate", "systolic", "comorbidity", "prior_stays", "albumin", "heart_rate"]


def simulate_cohort(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, len(FEATURES)))
    risk = 0.7 * x[:, 0] + 0.5 * np.maximum(x[:, 1], 0) + 0.6 * x[:, 2] * (x[:, 3] < 0) + 0.5 * x[:, 4] - 0.4 * x[:, 6]
    event_time = rng.exponential(np.exp(-risk)) * 200
    censor_time = rng.uniform(30, 600, n)
    time = np.minimum(event_time, censor_time)
    event = (event_time <= censor_time).astype(np.float32)
    to = lambda a: torch.tensor(a, dtype=torch.float32)
    return to(x), to(time), to(event)


class RiskNet(nn.Module):
    def __init__(self, n_in, hidden=32):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(n_in, hidden), nn.ReLU(), nn.Dropout(0.1),
            nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1, bias=False))

    def forward(self, x):
        return self.net(x).squeeze(-1)


def cox_loss(log_risk, time, event):
    """Negative partial likelihood (Breslow), risk sets by a running log-sum-exp."""
    order = torch.argsort(time, descending=True)
    log_risk, event = log_risk[order], event[order]
    log_denominator = torch.logcumsumexp(log_risk, dim=0)
    return -((log_risk - log_denominator) * event).sum() / event.sum().clamp(min=1)


def concordance(log_risk, time, event):
    earlier = (time[:, None] < time[None, :]) & (event[:, None] > 0)
    higher = (log_risk[:, None] > log_risk[None, :]).float() + 0.5 * (log_risk[:, None] == log_risk[None, :]).float()
    return (higher * earlier).sum().item() / earlier.sum().item()


@torch.no_grad()
def evaluate(model, x, time, event):
    model.eval()
    log_risk = model(x)
    return cox_loss(log_risk, time, event).item(), concordance(log_risk, time, event)


def main():
    torch.manual_seed(2)
    x, time, event = simulate_cohort(3600, seed=2)
    train, val, test = slice(0, 2400), slice(2400, 3000), slice(3000, 3600)
    mean, std = x[train].mean(0), x[train].std(0)
    x = (x - mean) / std
    print(f"patients {len(x)}, events in training {event[train].mean():.2f}")

    model = RiskNet(len(FEATURES))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    best_loss, best_state = float("inf"), None
    for epoch in range(15):
        model.train()
        total, batches = 0.0, 0
        for idx in torch.randperm(2400).split(200):
            loss = cox_loss(model(x[train][idx]), time[train][idx], event[train][idx])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            batches += 1
        val_loss, val_c = evaluate(model, x[val], time[val], event[val])
        if val_loss < best_loss:
            best_loss = val_loss
            best_state = {k: v.clone() for k, v in model.state_dict().items()}
        if epoch % 3 == 2:
            print(f"epoch {epoch}  train {total / batches:.4f}  val {val_loss:.4f}  val c-index {val_c:.4f}")

    model.load_state_dict(best_state)
    _, test_c = evaluate(model, x[test], time[test], event[test])
    print(f"test c-index {test_c:.4f}")


if __name__ == "__main__":
    main()
