import argparse

import numpy as np
import torch
import torch.nn as nn

# Firing of a pottery kiln: temperature in the brick wall, solved with a physics-informed network.
# x: depth in the wall [m], t: time [h], u: temperature [1000 degC above the room]
WIDTH, HOURS, ALPHA = 0.25, 10.0, 1.6e-3


def inside(t):
    """Firing schedule: slow ramp, then hold (temperature of the hot face)."""
    return 1.1 * (1 - torch.exp(-t / 2.5))


def reference(nx=101, nt=20001):
    """Explicit finite differences; the outer face stays at room temperature."""
    dx, dt = WIDTH / (nx - 1), HOURS / (nt - 1)
    u, keep = np.zeros(nx), []
    t = np.linspace(0, HOURS, nt)
    hot = inside(torch.from_numpy(t)).numpy()
    for i in range(nt):
        if i:
            u[1:-1] += ALPHA * dt / dx ** 2 * (u[2:] - 2 * u[1:-1] + u[:-2])
        u[0], u[-1] = hot[i], 0.0
        if i % 1000 == 0:
            keep.append(u.copy())
    xs, ts = np.meshgrid(np.linspace(0, WIDTH, nx), t[::1000])
    pts = torch.tensor(np.stack([xs.ravel(), ts.ravel()], 1), dtype=torch.float32)
    return pts, torch.tensor(np.concatenate(keep), dtype=torch.float32)


class Wall(nn.Module):
    """Works on coordinates scaled to [-1, 1]."""

    def __init__(self, hidden, layers):
        super().__init__()
        mods, d = [], 2
        for _ in range(layers):
            mods += [nn.Linear(d, hidden), nn.Tanh()]
            d = hidden
        self.net = nn.Sequential(*mods, nn.Linear(d, 1))

    def forward(self, z):
        return self.net(z).squeeze(-1)


SPAN = torch.tensor([WIDTH, HOURS])
SX, ST = 2 / WIDTH, 2 / HOURS


def scale(p):
    return 2 * p / SPAN - 1


def residual(model, z):
    """Heat equation u_t - alpha u_xx, in physical units divided by the rate of the ramp."""
    z = z.requires_grad_(True)
    u = model(z)
    du = torch.autograd.grad(u.sum(), z, create_graph=True)[0]
    u_x, u_t = du[:, 0] * SX, du[:, 1] * ST
    u_xx = torch.autograd.grad(u_x.sum(), z, create_graph=True)[0][:, 0] * SX
    return (u_t - ALPHA * u_xx) * 2.5


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=1300)
    ap.add_argument("--lr", type=float, default=5e-3)
    ap.add_argument("--hidden", type=int, default=32)
    ap.add_argument("--layers", type=int, default=3)
    ap.add_argument("--n-col", type=int, default=128)
    ap.add_argument("--n-bc", type=int, default=64)
    ap.add_argument("--w-bc", type=float, default=10.0)
    ap.add_argument("--seed", type=int, default=0)
    args = ap.parse_args()
    torch.manual_seed(args.seed)

    model = Wall(args.hidden, args.layers)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.steps, eta_min=args.lr / 50)
    test_p, test_u = reference()

    for step in range(1, args.steps + 1):
        col = torch.rand(args.n_col, 2) * SPAN
        t = torch.rand(args.n_bc) * HOURS
        x = torch.rand(args.n_bc) * WIDTH
        zero = torch.zeros(args.n_bc)
        hot = torch.stack([zero, t], 1)
        cold = torch.stack([zero + WIDTH, t], 1)
        start = torch.stack([x, zero], 1)

        pde = residual(model, scale(col)).pow(2).mean()
        bc = (model(scale(hot)) - inside(t)).pow(2).mean() + model(scale(cold)).pow(2).mean()
        ic = model(scale(start)).pow(2).mean()
        loss = pde + args.w_bc * (bc + ic)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if step % 200 == 0:
            print(f"step {step:5d} loss {loss.item():.3e} pde {pde.item():.3e} bc {bc.item():.3e} ic {ic.item():.3e}")

    with torch.no_grad():
        err = (model(scale(test_p)) - test_u).abs().mean().item() * 1000
    print(f"mean absolute error against finite differences: {err:.2f} K")


if __name__ == "__main__":
    main()
