import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

SIGMAS = torch.logspace(np.log10(3.0), np.log10(0.04), 12)


def spectra_features(n, seed):
    rng = np.random.default_rng(seed)
    phase = rng.uniform(0, 2 * np.pi, n)
    rad = 1.0 + 0.15 * rng.normal(size=n)
    third = 0.8 * np.sin(2 * phase) + rng.normal(0, 0.08, n)
    return np.stack([rad * np.cos(phase), rad * np.sin(phase), third], 1)


class ScoreNet(nn.Module):
    def __init__(self, dim=3, width=112):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(dim + 1, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(),
                                  nn.Linear(width, width), nn.SiLU(), nn.Linear(width, dim))

    def forward(self, x, sigma):
        h = torch.cat([x / (1 + sigma ** 2).sqrt(), sigma.log()], 1)
        return self.body(h) / sigma


def dsm(net, x):
    sigma = SIGMAS[torch.randint(0, len(SIGMAS), (len(x),))].unsqueeze(1)
    noise = torch.randn_like(x)
    noisy = x + sigma * noise
    target = -noise / sigma ** 2
    residual = sigma * (net(noisy, sigma) - target)
    return residual.square().sum(1).mean()


@torch.no_grad()
def annealed_langevin(net, n, inner=12, eps=0.12):
    x = SIGMAS[0] * torch.randn(n, 3)
    for sigma in SIGMAS:
        step = eps * sigma ** 2
        level = sigma.expand(n, 1)
        for _ in range(inner):
            x = x + 0.5 * step * net(x, level) + step.sqrt() * torch.randn_like(x)
    return x + SIGMAS[-1] ** 2 * net(x, SIGMAS[-1].expand(n, 1))


def mmd(a, b, width=0.4):
    k = lambda u, v: torch.exp(-torch.cdist(u, v) ** 2 / (2 * width ** 2)).mean()
    return (k(a, a) + k(b, b) - 2 * k(a, b)).clamp(min=0).sqrt().item()


def main(epochs=16, batch=200):
    torch.manual_seed(8)
    x = torch.tensor(spectra_features(8000, 0), dtype=torch.float32)
    test = torch.tensor(spectra_features(700, 1), dtype=torch.float32)
    mean, std = x.mean(0), x.std(0)
    loader = DataLoader((x - mean) / std, batch_size=batch, shuffle=True)
    net = ScoreNet()
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 3e-3, epochs=epochs, steps_per_epoch=len(loader))
    for epoch in range(epochs):
        total = 0.0
        for xb in loader:
            loss = dsm(net, xb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            total += loss.item()
        if epoch % 4 == 0:
            print(f"epoch {epoch} dsm {total / len(loader):.4f}")
    samples = annealed_langevin(net.eval(), 700)
    print(f"mmd to test set: {mmd(samples, (test - mean) / std):.4f}")


if __name__ == "__main__":
    main()
