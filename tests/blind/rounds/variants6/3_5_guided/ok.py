"""Class-conditional diffusion of gait features with classifier-free guidance."""
import numpy as np
import torch
import torch.nn as nn

N_CLASS, STEPS = 5, 60


def gait(n, rng):
    y = rng.integers(0, N_CLASS, n)
    speed = np.array([0.7, 1.0, 1.3, 1.8, 2.4])[y] + rng.normal(0, 0.12, n)
    cadence = 60 + 45 * np.sqrt(speed) + np.array([0, 6, -5, 3, -4])[y] + rng.normal(0, 2.5, n)
    stance = 70 - 9 * speed + rng.normal(0, 1.0, n)
    asym = np.array([0.25, 0.05, 0.15, 0.02, 0.1])[y] + np.abs(rng.normal(0, 0.03, n))
    return np.stack([speed, cadence, stance, asym], 1), y


def noise_levels():
    beta = torch.linspace(1e-3, 0.15, STEPS)
    return beta, torch.cumprod(1 - beta, dim=0)


class EpsNet(nn.Module):
    def __init__(self, d, width=112):
        super().__init__()
        self.label = nn.Embedding(N_CLASS + 1, 16)
        self.time = nn.Embedding(STEPS, 16)
        self.net = nn.Sequential(nn.Linear(d + 32, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(),
                                 nn.Linear(width, d))

    def forward(self, x, t, y):
        return self.net(torch.cat([x, self.time(t), self.label(y)], 1))


def train_step(net, opt, x0, y, abar, drop=0.15):
    t = torch.randint(0, STEPS, (len(x0),))
    eps = torch.randn_like(x0)
    a = abar[t].unsqueeze(1)
    y = torch.where(torch.rand(len(y)) < drop, torch.full_like(y, N_CLASS), y)
    pred = net(a.sqrt() * x0 + (1 - a).sqrt() * eps, t, y)
    loss = (pred - eps).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item()


@torch.no_grad()
def generate(net, y, d, w, beta, abar):
    x = torch.randn(len(y), d)
    null = torch.full_like(y, N_CLASS)
    for k in range(STEPS - 1, -1, -1):
        t = torch.full_like(y, k)
        cond, free = net(x, t, y), net(x, t, null)
        eps = free + w * (cond - free)
        x = (x - beta[k] * eps / (1 - abar[k]).sqrt()) / (1 - beta[k]).sqrt()
        if k:
            var = beta[k] * (1 - abar[k - 1]) / (1 - abar[k])
            x = x + var.sqrt() * torch.randn_like(x)
    return x


def nearest_class(x, ref, ref_y):
    c = torch.stack([ref[ref_y == k].mean(0) for k in range(N_CLASS)])
    s = torch.stack([ref[ref_y == k].std(0) for k in range(N_CLASS)])
    z = ((x[:, None] - c) / s) ** 2
    return (z + 2 * s.log()).sum(2).argmin(1)


def main():
    torch.manual_seed(31)
    rng = np.random.default_rng(31)
    x, y = gait(7000, rng)
    mu, sd = x[:5500].mean(0), x[:5500].std(0)
    x = torch.tensor((x - mu) / sd, dtype=torch.float32)
    y = torch.tensor(y)
    xtr, ytr, xte, yte = x[:5500], y[:5500], x[5500:], y[5500:]
    beta, abar = noise_levels()
    net = EpsNet(x.shape[1])
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    step = 0
    for epoch in range(24):
        order = torch.randperm(len(xtr))
        for idx in order.split(160):
            loss = train_step(net, opt, xtr[idx], ytr[idx], abar)
            step += 1
        if epoch % 6 == 0:
            print(f"epoch {epoch} step {step} loss {loss:.4f}")
    net.eval()
    want = torch.arange(N_CLASS).repeat(200)
    out = generate(net, want, x.shape[1], 1.5, beta, abar)
    real = (nearest_class(xte, xtr, ytr) == yte).float().mean().item()
    hit = (nearest_class(out, xtr, ytr) == want).float().mean().item()
    print(f"class agreement real {real:.3f} generated {hit:.3f}")


if __name__ == "__main__":
    main()
