import numpy as np
import torch
import torch.nn as nn
from sklearn.datasets import make_moons


class Schedule:
    def __init__(self, steps=100, lo=1e-3, hi=0.08):
        self.steps = steps
        self.beta = torch.linspace(lo, hi, steps)
        self.alpha = 1 - self.beta
        self.alpha_bar = torch.cumprod(self.alpha, 0)

    def add_noise(self, x0, t, noise):
        ab = self.alpha_bar[t][:, None]
        return ab.sqrt() * x0 + (1 - ab).sqrt() * noise


class Denoiser(nn.Module):
    def __init__(self, steps, width=96):
        super().__init__()
        self.time = nn.Embedding(steps, 24)
        self.inp = nn.Linear(2 + 24, width)
        self.mid = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.out = nn.Linear(width, 2)

    def forward(self, x, t):
        h = torch.relu(self.inp(torch.cat([x, self.time(t)], 1)))
        for layer in self.mid:
            h = h + torch.relu(layer(h))
        return self.out(h)


def load(n, seed):
    x, _ = make_moons(n, noise=0.06, random_state=seed)
    return torch.tensor(x, dtype=torch.float32)


@torch.no_grad()
def sample(net, sch, n):
    x = torch.randn(n, 2)
    for i in reversed(range(sch.steps)):
        t = torch.full((n,), i)
        eps = net(x, t)
        mean = (x - sch.beta[i] / (1 - sch.alpha_bar[i]).sqrt() * eps) / sch.alpha[i].sqrt()
        x = mean + (sch.beta[i].sqrt() * torch.randn_like(x) if i > 0 else 0)
    return x


def nearest(a, b):
    d = torch.cdist(a, b)
    return 0.5 * (d.min(1).values.mean() + d.min(0).values.mean()).item()


def main():
    torch.manual_seed(0)
    train, test = load(6000, 0), load(1000, 1)
    mu, sd = train.mean(0), train.std(0)
    x = (train - mu) / sd
    sch = Schedule()
    net = Denoiser(sch.steps)
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-5)
    lr = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 1200)
    for step in range(1200):
        x0 = x[torch.randint(0, len(x), (128,))]
        t = torch.randint(0, sch.steps, (len(x0),))
        noise = torch.randn_like(x0)
        loss = nn.functional.mse_loss(net(sch.add_noise(x0, t, noise), t), noise)
        opt.zero_grad()
        loss.backward()
        opt.step()
        lr.step()
        if step % 300 == 0:
            print(f"step {step:4d} loss {loss.item():.4f}")
    net.eval()
    out = sample(net, sch, 1000) * sd + mu
    print(f"two-sided nearest distance: {nearest(out, test):.4f}")


if __name__ == "__main__":
    main()
