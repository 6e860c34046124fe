"""Mortality risk from admission labs; small cohort, early stopping on validation log loss."""
import numpy as np
import torch
from torch import nn
from sklearn.metrics import roc_auc_score

LABS = ["lactate", "creatinine", "bun", "platelets", "wbc", "bilirubin", "sodium", "ph", "map", "gcs",
        "age", "resp_rate", "heart_rate", "temp", "spo2", "glucose", "hgb", "potassium", "inr", "albumin"]


def cohort(n, rng):
    severity = rng.normal(0, 1, n)
    renal = rng.normal(0, 1, n)
    table = np.empty((n, len(LABS)), dtype=np.float32)
    load = np.linspace(0.6, 0.0, len(LABS))
    for j in range(len(LABS)):
        table[:, j] = load[j] * severity + (0.6 * renal if j in (1, 2, 17) else 0) + rng.normal(0, 1, n)
    logit = 1.5 * severity + 0.8 * renal - 1.2
    died = (rng.random(n) < 1 / (1 + np.exp(-logit))).astype(np.float32)
    return table, died


class RiskNet(nn.Module):
    def __init__(self, n_in, width=96):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(n_in, width), nn.ReLU(),
            nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, 1),
        )

    def forward(self, x):
        return self.layers(x)[:, 0]


class EarlyStopper:
    def __init__(self, patience):
        self.patience = patience
        self.best = float("inf")
        self.bad = 0
        self.weights = None

    def step(self, value, model):
        if value < self.best - 1e-4:
            self.best, self.bad = value, 0
            self.weights = {k: v.detach().cpu() for k, v in model.state_dict().items()}
        else:
            self.bad += 1
        return self.bad >= self.patience


def evaluate(model, x, y):
    model.eval()
    with torch.no_grad():
        logit = model(x)
        return nn.functional.binary_cross_entropy_with_logits(logit, y).item(), logit


def main():
    torch.manual_seed(4)
    rng = np.random.default_rng(4)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    table, died = cohort(3400, rng)
    tr, va, te = np.split(rng.permutation(len(table)), [800, 1400])
    mu, sd = table[tr].mean(0), table[tr].std(0)
    x = torch.tensor((table - mu) / sd, device=device)
    y = torch.tensor(died, device=device)
    tr, va, te = map(torch.as_tensor, (tr, va, te))

    model = RiskNet(x.shape[1]).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    stopper = EarlyStopper(patience=25)
    for epoch in range(120):
        model.train()
        for idx in tr[torch.randperm(len(tr))].split(32):
            opt.zero_grad()
            loss = nn.functional.binary_cross_entropy_with_logits(model(x[idx]), y[idx])
            loss.backward()
            opt.step()
        val, _ = evaluate(model, x[va], y[va])
        if epoch % 5 == 0:
            print(f"{epoch:3d} val {val:.4f}")
        if stopper.step(val, model):
            print(f"stopped after epoch {epoch}, best {stopper.best:.4f}")
            break
    model.load_state_dict(stopper.weights)
    loss, logit = evaluate(model, x[te], y[te])
    print(f"test_auc={roc_auc_score(y[te].cpu(), logit.cpu()):.4f}")
    print(f"test_logloss={loss:.4f}")


if __name__ == "__main__":
    main()
