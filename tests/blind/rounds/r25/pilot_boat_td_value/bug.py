"""Value of a harbour state for the dispatch of pilot boats: temporal-difference learning of the expected cost to come."""
import numpy as np
import torch
import torch.nn as nn

MAX_QUEUE, TIDE, BOATS = 14, 6, 2
GAMMA = 0.92
RNG = np.random.default_rng(12)

# arrivals of ships in an hour, by phase of the tide: quiet or a convoy
CONVOY_P = np.array([0.02, 0.05, 0.35, 0.25, 0.05, 0.02])
CONVOY = 9


def successors(queue, tide):
    """All (probability, cost, next queue, next tide) of one hour under the harbour's fixed rule."""
    cost = queue * 1.0 + (6.0 if queue > 10 else 0.0)
    served = BOATS if tide in (1, 2, 3, 4) else 1
    left = max(queue - served, 0)
    p = CONVOY_P[tide]
    for prob, arr in [((1 - p) * 0.6, 0), ((1 - p) * 0.4, 1), (p, CONVOY)]:
        stay = 0.7
        nq = min(left + arr, MAX_QUEUE)
        yield prob * stay, cost, nq, tide
        yield prob * (1 - stay), cost, nq, (tide + 1) % TIDE


def exact_values():
    n = (MAX_QUEUE + 1) * TIDE
    P, r = np.zeros((n, n)), np.zeros(n)
    for q in range(MAX_QUEUE + 1):
        for t in range(TIDE):
            for p, c, nq, nt in successors(q, t):
                P[q * TIDE + t, nq * TIDE + nt] += p
                r[q * TIDE + t] = c
    return torch.tensor(np.linalg.solve(np.eye(n) - GAMMA * P, r), dtype=torch.float32)


def log_book(hours):
    """Recorded transitions from many short watches with random starts."""
    rows = []
    while len(rows) < hours:
        q, t = RNG.integers(0, MAX_QUEUE + 1), RNG.integers(0, TIDE)
        for _ in range(12):
            options = list(successors(q, t))
            k = RNG.choice(len(options), p=[o[0] for o in options])
            _, c, nq, nt = options[k]
            rows.append((q, t, c, nq, nt))
            q, t = nq, nt
    return torch.tensor(np.array(rows[:hours]), dtype=torch.float32)


def encode(queue, tide):
    ang = 2 * np.pi * tide / TIDE
    hot = nn.functional.one_hot(tide.long(), TIDE).float()
    return torch.cat([queue[:, None] / MAX_QUEUE, (queue[:, None] / MAX_QUEUE) ** 2,
                      torch.sin(ang)[:, None], torch.cos(ang)[:, None], hot], 1)


class Critic(nn.Module):
    def __init__(self, n_in, scale):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_in, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 1))
        self.scale = scale

    def forward(self, x):
        return self.scale * self.body(x).squeeze(1)


torch.manual_seed(0)
log = log_book(12000)
s, c, s2 = encode(log[:, 0], log[:, 1]), log[:, 2], encode(log[:, 3], log[:, 4])
grid_q = torch.arange(MAX_QUEUE + 1).repeat_interleave(TIDE).float()
grid_t = torch.arange(TIDE).repeat(MAX_QUEUE + 1).float()
grid, truth = encode(grid_q, grid_t), exact_values()

critic = Critic(s.shape[1], scale=float(c.mean() / (1 - GAMMA)))
opt = torch.optim.Adam(critic.parameters(), lr=1e-3)
epochs, batch = 30, 128
sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda e: 1.0 if e < 18 else 0.15)

for epoch in range(1, epochs + 1):
    perm = torch.randperm(len(s))
    err = 0.0
    for i in range(0, len(perm), batch):
        j = perm[i:i + batch]
        goal = c[j] + GAMMA * critic(s2[j])
        delta = (goal - critic(s[j])) / critic.scale
        loss = delta.pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        err += loss.item() * len(j)
    sched.step()
    if epoch % 5 == 0:
        with torch.no_grad():
            mae = (critic(grid) - truth).abs().mean().item()
        print(f"epoch {epoch:3d}  td error {err / len(s):.4f}  value MAE {mae:.2f} ship-hours")

with torch.no_grad():
    v = critic(grid)
print(f"mean cost to come {v.mean():.1f} (exact {truth.mean():.1f})")
print(f"value MAE {(v - truth).abs().mean():.3f} ship-hours, spread of the exact values {truth.std():.1f}")
