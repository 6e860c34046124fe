"""Physics-informed net for a heated tank: dT/dt = -k (T - T_env) + q(t), few thermocouple readings."""
import argparse

import numpy as np
import torch
import torch.nn as nn

K, T_ENV = 0.1, 0.2


def heat(t):
    return 0.1 + 0.8 * torch.sin(2.0 * t)


def reference(ts, t0=1.5, sub=20):
    """RK4 on a fine grid."""
    f = lambda t, u: -K * (u - T_ENV) + 0.1 + 0.8 * np.sin(2.0 * t)
    out, u = [t0], t0
    for a, b in zip(ts[:-1], ts[1:]):
        h = (b - a) / sub
        for i in range(sub):
            t = a + i * h
            k1 = f(t, u)
            k2 = f(t + h / 2, u + h / 2 * k1)
            k3 = f(t + h / 2, u + h / 2 * k2)
            k4 = f(t + h, u + h * k3)
            u = u + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        out.append(u)
    return np.array(out)


class Field(nn.Module):
    def __init__(self, width=32, depth=3):
        super().__init__()
        layers = [nn.Linear(1, width), nn.Tanh()]
        for _ in range(depth - 1):
            layers += [nn.Linear(width, width), nn.Tanh()]
        self.net = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, t):
        return self.net(t / 2.5 - 1.0)


def residual(model, t):
    t = t.requires_grad_(True)
    u = model(t)
    du = torch.autograd.grad(u, t, torch.ones_like(u), create_graph=True)[0]
    return du - (-K * (u - T_ENV) + heat(t))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--iters", type=int, default=1800)
    ap.add_argument("--lr", type=float, default=4e-3)
    ap.add_argument("--w", type=float, default=0.5, help="weight of the equation term")
    ap.add_argument("--seed", type=int, default=4)
    a = ap.parse_args()
    torch.manual_seed(a.seed)
    rng = np.random.default_rng(a.seed)

    grid = np.linspace(0, 5, 251)
    truth = reference(grid)
    seen = np.sort(rng.choice(np.arange(1, 80), 6, replace=False))
    seen = np.concatenate([[0], seen])
    t_obs = torch.tensor(grid[seen], dtype=torch.float32)[:, None]
    u_obs = torch.tensor(truth[seen] + 0.01 * rng.normal(size=len(seen)), dtype=torch.float32)[:, None]

    model = Field()
    opt = torch.optim.Adam(model.parameters(), lr=a.lr)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, gamma=0.999)
    for it in range(a.iters):
        colloc = 5.0 * torch.rand(64, 1)
        data = (model(t_obs) - u_obs).pow(2).mean()
        phys = residual(model, colloc).pow(2).mean()
        loss = data + a.w * phys
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if it % 500 == 0:
            print(f"it {it} data {data.item():.5f} equation {phys.item():.5f}")
    with torch.no_grad():
        u = model(torch.tensor(grid, dtype=torch.float32)[:, None]).squeeze(1).numpy()
    print(f"relative L2 error on [0, 5] {np.linalg.norm(u - truth) / np.linalg.norm(truth):.4f}")


if __name__ == "__main__":
    main()
