"""Contrastive pretraining on unlabelled machine-current windows, then a linear probe on few labels."""
import math
import torch
from torch import nn
import torch.nn.functional as F

LEN, CLASSES = 128, 6


def windows(n, seed):
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(LEN) / LEN
    y = torch.randint(0, CLASSES, (n,), generator=g)
    u = lambda *s: torch.rand(*s, generator=g)
    phase, f0 = u(n, 1) * 2 * math.pi, 4 + 0.8 * u(n, 1)
    ratio = torch.tensor([2, 3, 2, 3, 5, 5]).float()[y][:, None]
    kind = torch.tensor([0, 0, 1, 1, 0, 1])[y][:, None]
    carrier = torch.sin(2 * math.pi * f0 * t + phase)
    side = torch.sin(2 * math.pi * ratio * f0 * t + ratio * phase)
    wave = torch.where(kind == 0, carrier + 0.45 * side, carrier * (1 + 0.45 * side))
    drift = (u(n, 1) - 0.5) * 4 * (t - 0.5) + (u(n, 1) - 0.5) * 2
    gain = torch.exp(1.2 * (u(n, 1) - 0.5))
    return (gain * wave + drift + 0.15 * torch.randn(n, LEN, generator=g))[:, None], y


class Augment:
    """random shift in time, gain, slow drift, noise"""

    def __init__(self, seed):
        self.seed = seed
        self.calls = 0

    def __call__(self, x, step):
        g = torch.Generator().manual_seed(self.seed + step)
        self.calls += 1
        n = len(x)
        shift = torch.randint(0, LEN, (n, 1), generator=g)
        idx = (torch.arange(LEN)[None] + shift) % LEN
        x = x.gather(2, idx[:, None])
        gain = torch.exp(1.2 * (torch.rand(n, 1, 1, generator=g) - 0.5))
        slope = (torch.rand(n, 1, 1, generator=g) - 0.5) * 4
        level = (torch.rand(n, 1, 1, generator=g) - 0.5) * 2
        ramp = torch.linspace(-0.5, 0.5, LEN)
        return gain * x + slope * ramp + level + 0.15 * torch.randn(n, 1, LEN, generator=g)


class Encoder(nn.Module):
    def __init__(self, c=24):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, c, 9, stride=2, padding=4), nn.BatchNorm1d(c), nn.ReLU(),
            nn.Conv1d(c, 2 * c, 7, stride=2, padding=3), nn.BatchNorm1d(2 * c), nn.ReLU(),
            nn.Conv1d(2 * c, 2 * c, 5, stride=2, padding=2), nn.BatchNorm1d(2 * c), nn.ReLU())
        self.proj = nn.Sequential(nn.Linear(2 * c, 48), nn.ReLU(), nn.Linear(48, 24))

    def features(self, x):
        return self.net(x).mean(2)

    def forward(self, x):
        return F.normalize(self.proj(self.features(x)), dim=1)


def nt_xent(a, b, temp=0.2):
    z = torch.cat([a, b])
    sim = z @ z.t() / temp
    sim.fill_diagonal_(-1e9)
    n = len(a)
    target = torch.cat([torch.arange(n, 2 * n), torch.arange(n)])
    return F.cross_entropy(sim, target)


def probe(enc, xtr, ytr, xte, yte):
    enc.eval()
    with torch.no_grad():
        ftr, fte = enc.features(xtr), enc.features(xte)
    mu, sd = ftr.mean(0), ftr.std(0) + 1e-5
    ftr, fte = (ftr - mu) / sd, (fte - mu) / sd
    head = nn.Linear(ftr.shape[1], CLASSES)
    opt = torch.optim.Adam(head.parameters(), lr=0.02, weight_decay=1e-3)
    for _ in range(200):
        opt.zero_grad()
        F.cross_entropy(head(ftr), ytr).backward()
        opt.step()
    with torch.no_grad():
        return (head(fte).argmax(1) == yte).float().mean().item()


def main():
    torch.manual_seed(7)
    pool, _ = windows(4000, 1)
    xl, yl = windows(150, 2)
    xt, yt = windows(1500, 3)
    enc, aug = Encoder(), Augment(100)
    opt = torch.optim.Adam(enc.parameters(), lr=2e-3)
    for step in range(220):
        x = pool[torch.randint(0, len(pool), (96,))]
        v1, v2 = aug(x, step), aug(x, step)
        loss = nt_xent(enc(v1), enc(v2))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 40 == 0:
            print(f"step {step} contrastive loss {loss.item():.4f}")
    print(f"linear probe accuracy {probe(enc, xl, yl, xt, yt):.4f}")


if __name__ == "__main__":
    main()
