# Deep Cox model for time to relapse after surgery.
import numpy as np
import torch
import torch.nn as nn

torch.manual_seed(2024)
rs = np.random.RandomState(2024)

N, N_TRAIN = 3600, 2600
FEATURES = ["age", "tumour_mm", "nodes", "grade", "er", "pr", "hormone_therapy", "ki67"]


def cohort(n):
    age = rs.normal(57, 11, n).clip(28, 88)
    size = rs.gamma(4, 6.5, n)
    nodes = rs.poisson(rs.gamma(1.0, 3.0, n))
    grade = rs.choice([1, 2, 3], n, p=[0.2, 0.5, 0.3])
    er = rs.gamma(1.2, 80, n)
    pr = rs.gamma(1.0, 80, n) + 0.2 * er
    therapy = (rs.rand(n) < 0.4).astype(float)
    ki67 = rs.beta(2, 6, n) * 100
    log_hazard = (0.9 * np.log1p(nodes) + 0.03 * (size - 26) + 0.5 * (grade - 2) + 0.03 * (ki67 - 25)
                  - 0.6 * therapy * (er > 60) + 0.0012 * (age - 55) ** 2 - 0.25 * np.log1p(pr / 20))
    event_time = 9.0 * (rs.exponential(1.0, n) / np.exp(log_hazard)) ** (1 / 1.3)
    censor_time = rs.uniform(2, 14, n)
    observed = event_time <= censor_time
    x = np.stack([age, size, nodes, grade, np.log1p(er), np.log1p(pr), therapy, ki67], 1)
    return x, np.minimum(event_time, censor_time), observed


def cox_loss(risk, time, event):
    """Negative log partial likelihood of a mini-batch (Breslow)."""
    order = torch.argsort(time, descending=True)
    risk, event = risk[order], event[order]
    log_at_risk = torch.logcumsumexp(risk, dim=0)
    return -((risk - log_at_risk) * event).sum() / event.sum().clamp(min=1)


def concordance(risk, time, event):
    """Harrell's C: of the comparable pairs, how many are ranked correctly."""
    earlier = (time[:, None] < time[None, :]) & event[:, None].bool()
    better = (risk[:, None] > risk[None, :]).float() + 0.5 * (risk[:, None] == risk[None, :]).float()
    return (better * earlier).sum().item() / earlier.sum().item()


class RiskNet(nn.Module):
    def __init__(self, n_in, hidden=(48, 24), p=0.1):
        super().__init__()
        layers, last = [], n_in
        for h in hidden:
            layers += [nn.Linear(last, h), nn.SELU(), nn.Dropout(p)]
            last = h
        self.trunk = nn.Sequential(*layers)
        self.log_risk = nn.Linear(last, 1, bias=False)

    def forward(self, x):
        return self.log_risk(self.trunk(x)).squeeze(-1)


x, time, event = cohort(N)
mu, sigma = x[:N_TRAIN].mean(0), x[:N_TRAIN].std(0)
x = torch.tensor((x - mu) / sigma, dtype=torch.float32)
time = torch.tensor(time, dtype=torch.float32)
event = torch.tensor(event, dtype=torch.float32)
x_tr, t_tr, e_tr = x[:N_TRAIN], time[:N_TRAIN], event[:N_TRAIN]
x_va, t_va, e_va = x[N_TRAIN:], time[N_TRAIN:], event[N_TRAIN:]
print(f"{N_TRAIN} patients for training, {e_tr.mean():.0%} with relapse, {len(FEATURES)} covariates")

net = RiskNet(len(FEATURES))
optimizer = torch.optim.AdamW(net.parameters(), lr=1.5e-3, weight_decay=1e-3)
EPOCHS, BATCH = 25, 260
for epoch in range(1, EPOCHS + 1):
    net.train()
    losses = []
    for idx in torch.randperm(N_TRAIN).split(BATCH):
        loss = cox_loss(net(x_tr[idx]), t_tr[idx], e_tr[idx])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        optimizer.step()
        losses.append(loss.item())
    if epoch % 5 == 0:
        net.eval()
        with torch.no_grad():
            c = concordance(net(x_va), t_va, e_va)
        print(f"epoch {epoch:3d} | partial likelihood loss {np.mean(losses):.4f} | validation C-index {c:.4f}")

net.eval()
with torch.no_grad():
    print(f"final validation C-index {concordance(net(x_va), t_va, e_va):.4f}")
