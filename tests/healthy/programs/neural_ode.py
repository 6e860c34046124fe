"""A neural differential equation, unrolled by Euler and by Runge-Kutta steps, fitted to trajectories of a damped
oscillator."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(19)
true_A = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
t = torch.linspace(0.0, 1.0, 21)


def euler(f, y0, t):
    ys = [y0]
    for t0, t1 in zip(t[:-1], t[1:], strict=True):
        ys.append(ys[-1] + (t1 - t0) * f(t0, ys[-1]))
    return torch.stack(ys)


def rk4(f, y0, t):
    ys = [y0]
    for t0, t1 in zip(t[:-1], t[1:], strict=True):
        h, y = t1 - t0, ys[-1]
        k1 = f(t0, y)
        k2 = f(t0 + h / 2, y + h / 2 * k1)
        k3 = f(t0 + h / 2, y + h / 2 * k2)
        k4 = f(t1, y + h * k3)
        ys.append(y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4))
    return torch.stack(ys)


class Truth(nn.Module):
    def forward(self, t, y):
        return y @ true_A


class ODEFunc(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 50), nn.Tanh(), nn.Linear(50, 2))
        for m in self.net.modules():
            if isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, mean=0, std=0.1)
                nn.init.constant_(m.bias, val=0)
        self.nfe = 0

    def forward(self, t, y):
        self.nfe += 1
        return self.net(y)


with torch.no_grad():
    true_y = rk4(Truth(), torch.randn(64, 2), t)


def get_batch(size=16, length=8):
    start = torch.randint(0, len(t) - length, (1,)).item()
    who = torch.randperm(64)[:size]
    return true_y[start, who], t[start : start + length], true_y[start : start + length, who]


for solver in (euler, rk4):
    func = ODEFunc()
    optimizer = torch.optim.RMSprop(func.parameters(), lr=5e-3)
    for itr in range(1, 41):
        optimizer.zero_grad()
        y0, times, target = get_batch()
        loss = torch.mean(torch.abs(solver(func, y0, times) - target))
        loss.backward()
        optimizer.step()
        if itr % 20 == 0:
            func.eval()
            with torch.no_grad():
                error = F.l1_loss(solver(func, true_y[0], t), true_y).item()
            func.train()
            print(f"{solver.__name__} {itr}: {loss.item():.4f}, whole trajectory {error:.4f}, {func.nfe} evaluations")
