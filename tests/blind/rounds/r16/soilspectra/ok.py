from dataclasses import dataclass
import torch
from torch import nn


@dataclass
class Cfg:
    bands: int = 40
    width: int = 10
    depth: int = 6
    lr: float = 5e-3
    epochs: int = 30
    batch: int = 100
    seed: int = 5


def soil_samples(n, bands, gen):
    clay = torch.rand(n, generator=gen)
    moisture = torch.rand(n, generator=gen)
    carbon = torch.rand(n, generator=gen)
    grid = torch.linspace(0, 1, bands)
    dip = lambda c, w: torch.exp(-((grid - c) / w) ** 2)
    spectrum = (
        0.7
        - moisture[:, None] * (dip(0.4, 0.06) + 0.8 * dip(0.75, 0.08))
        - (clay * moisture.mul(0.5).add(0.5))[:, None] * dip(0.9, 0.05)
        - (carbon.sqrt() * (1 + clay))[:, None] * 0.3 * (1 - grid)
    )
    spectrum = spectrum + 0.01 * torch.randn(n, bands, generator=gen)
    organic = torch.sin(5 * carbon) * (1 - moisture) + clay * carbon
    return spectrum, organic


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return torch.tanh(self.fc(self.norm(x)))


class SpectrumNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.stem = nn.Linear(cfg.bands, cfg.width)
        self.blocks = nn.ModuleList([Block(cfg.width) for _ in range(cfg.depth)])
        self.out = nn.Linear(cfg.width, 1)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.out(x)[:, 0]


class Trainer:
    def __init__(self, cfg):
        torch.manual_seed(cfg.seed)
        gen = torch.Generator().manual_seed(cfg.seed)
        self.cfg = cfg
        self.train = soil_samples(1500, cfg.bands, gen)
        self.test = soil_samples(500, cfg.bands, gen)
        self.mu, self.sd = self.train[0].mean(0), self.train[0].std(0)
        self.net = SpectrumNet(cfg)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=cfg.lr)

    def fit(self):
        x, y = self.train
        x = (x - self.mu) / self.sd
        for ep in range(self.cfg.epochs):
            for rows in torch.randperm(len(x)).split(self.cfg.batch):
                self.opt.zero_grad()
                loss = nn.functional.mse_loss(self.net(x[rows]), y[rows])
                loss.backward()
                self.opt.step()
            if (ep + 1) % 10 == 0:
                print(f"epoch {ep + 1} loss {loss.item():.4f} test R2 {self.r2():.3f}")

    @torch.no_grad()
    def r2(self):
        x, y = self.test
        p = self.net((x - self.mu) / self.sd)
        return (1 - ((p - y) ** 2).sum() / ((y - y.mean()) ** 2).sum()).item()


if __name__ == "__main__":
    t = Trainer(Cfg())
    t.fit()
    print(f"final test R2 {t.r2():.3f}")
