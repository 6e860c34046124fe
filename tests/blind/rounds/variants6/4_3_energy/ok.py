"""Energy-based model of machine states, trained with persistent Langevin chains; used as an anomaly score."""
import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import nn


def machine(n, rng):
    mode = rng.integers(0, 3, n)
    rpm = np.array([-1.5, 0.0, 1.5])[mode] + rng.normal(0, 0.15, n)
    torque = np.array([1.0, -1.0, 0.8])[mode] + 0.6 * (rpm - np.array([-1.5, 0, 1.5])[mode]) + rng.normal(0, 0.12, n)
    oil = 0.5 * rpm ** 2 - 1 + rng.normal(0, 0.15, n)
    return np.stack([rpm, torque, oil], 1)


def faults(n, rng):
    x = machine(n, rng)
    return np.stack([rng.permutation(x[:, j]) for j in range(3)], 1)


class Energy(nn.Module):
    def __init__(self, d, width=80):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(d, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(),
                               nn.Linear(width, 1))

    def forward(self, x):
        return self.f(x).squeeze(1) + 0.05 * x.pow(2).sum(1)


class Chains:
    def __init__(self, size, d, reinit=0.05):
        self.state = torch.randn(size, d) * 1.5
        self.reinit = reinit

    def draw(self, n):
        idx = torch.randperm(len(self.state))[:n]
        x = self.state[idx].clone()
        fresh = torch.rand(n) < self.reinit
        x[fresh] = torch.randn(int(fresh.sum()), x.shape[1]) * 1.5
        return idx, x

    def put(self, idx, x):
        self.state[idx] = x


def langevin(energy, x, steps=8, size=0.04):
    for _ in range(steps):
        x = x.detach().requires_grad_(True)
        grad, = torch.autograd.grad(energy(x).sum(), x)
        x = x - size * grad.clamp(-5, 5) + 0.5 * (2 * size) ** 0.5 * torch.randn_like(x)
    return x.detach().clamp(-5, 5)


def main(steps=300, batch=128):
    torch.manual_seed(3)
    rng = np.random.default_rng(3)
    raw = machine(6000, rng)
    train = raw[:4500]
    mu, sd = train.mean(0), train.std(0)
    norm = lambda a: torch.tensor((a - mu) / sd, dtype=torch.float32)
    x = norm(train)
    good, bad = norm(raw[4500:]), norm(faults(1500, rng))
    energy = Energy(3)
    opt = torch.optim.Adam(energy.parameters(), lr=1e-3, betas=(0.5, 0.99))
    chains = Chains(2000, 3)
    for step in range(steps):
        pos = x[torch.randint(0, len(x), (batch,))]
        idx, start = chains.draw(batch)
        neg = langevin(energy, start)
        chains.put(idx, neg)
        e_pos, e_neg = energy(pos), energy(neg)
        loss = e_pos.mean() - e_neg.mean() + 0.02 * (e_pos.pow(2).mean() + e_neg.pow(2).mean())
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 75 == 0:
            print(f"step {step:3d} energies {e_pos.mean().item():.3f} / {e_neg.mean().item():.3f}")
    energy.eval()
    with torch.no_grad():
        score = torch.cat([energy(good), energy(bad)]).numpy()
    label = np.r_[np.zeros(len(good)), np.ones(len(bad))]
    print(f"fault detection auc: {roc_auc_score(label, score):.4f}")


if __name__ == "__main__":
    main()
