"""Cox model (neural) for time to catheter failure."""
import numpy as np
import torch
from torch import nn

np.random.seed(29)
torch.manual_seed(29)


def cohort(n):
    z = np.random.randn(n, 6)
    log_risk = 0.9 * z[:, 0] - 0.7 * z[:, 1] + 0.6 * z[:, 2] * z[:, 3]
    failure = np.random.exponential(1.0, n) / np.exp(log_risk)
    leave = np.random.exponential(2.0, n)
    t = np.minimum(failure, leave)
    return (torch.tensor(z, dtype=torch.float32), torch.tensor(t, dtype=torch.float32),
            torch.tensor(failure <= leave))


def partial_likelihood_loss(risk, duration, event):
    order = torch.argsort(duration)
    risk, event = risk[order], event[order].float()
    log_at_risk = torch.logcumsumexp(risk, dim=0)
    return -((risk - log_at_risk) * event).sum() / event.sum()


def concordance(risk, duration, event):
    earlier = (duration[:, None] < duration[None, :]) & event[:, None]
    higher = (risk[:, None] > risk[None, :]).float()
    return (higher * earlier).sum().item() / earlier.sum().item()


train, test = cohort(900), cohort(500)
net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
opt = torch.optim.Adam(net.parameters(), lr=3e-3, weight_decay=1e-4)

for epoch in range(30):
    for rows in torch.randperm(900).split(150):
        x, t, e = (col[rows] for col in train)
        loss = partial_likelihood_loss(net(x)[:, 0], t, e)
        opt.zero_grad()
        loss.backward()
        opt.step()
    if epoch % 10 == 9:
        print(f"epoch {epoch + 1} loss {loss.item():.3f}")

with torch.no_grad():
    c = concordance(net(test[0])[:, 0], test[1], test[2])
print(f"test concordance index {c:.3f}")
