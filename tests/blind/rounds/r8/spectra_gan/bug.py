"""GAN that generates two-channel process measurements; quality = sliced Wasserstein distance."""
from dataclasses import dataclass
import torch
from torch import nn


@dataclass
class Config:
    latent: int = 6
    hidden: int = 48
    steps: int = 700
    batch: int = 96
    lr_d: float = 2e-3
    lr_g: float = 1e-3
    seed: int = 2


def measurements(n):
    """Two operating regimes with correlated channels."""
    regime = (torch.rand(n, 1) < 0.6).float()
    a = torch.randn(n, 1)
    x0 = regime * (1.5 + 0.5 * a) + (1 - regime) * (-1.0 + 0.6 * a)
    x1 = regime * (0.8 * a + 1.0) + (1 - regime) * (-0.7 * a - 0.8) + 0.3 * torch.randn(n, 1)
    return torch.cat([x0, x1], dim=1)


def sliced_wasserstein(x, y, projections=32):
    g = torch.Generator().manual_seed(0)
    w = nn.functional.normalize(torch.randn(x.shape[1], projections, generator=g), dim=0)
    return ((x @ w).sort(0).values - (y @ w).sort(0).values).abs().mean().item()


def mlp(*sizes):
    layers = []
    for a, b in zip(sizes[:-2], sizes[1:-1]):
        layers += [nn.Linear(a, b), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.Linear(sizes[-2], sizes[-1]))


class GanTrainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.gen = mlp(cfg.latent, cfg.hidden, cfg.hidden, 2)
        self.disc = mlp(2, cfg.hidden, cfg.hidden, 1)
        self.opt_g = torch.optim.Adam(self.gen.parameters(), lr=cfg.lr_g, betas=(0.5, 0.99))
        self.opt_d = torch.optim.Adam(self.disc.parameters(), lr=cfg.lr_d, betas=(0.5, 0.99))
        self.bce = nn.BCEWithLogitsLoss()

    def train_step(self, real):
        ones = torch.ones(len(real), 1)
        zeros = torch.zeros(len(real), 1)
        fake = self.gen(torch.randn(len(real), self.cfg.latent)).detach()

        self.opt_d.zero_grad()
        loss_d = self.bce(self.disc(real), ones) + self.bce(self.disc(fake), zeros)
        loss_d.backward()
        self.opt_d.step()

        self.opt_g.zero_grad()
        loss_g = self.bce(self.disc(fake), ones)
        loss_g.backward()
        self.opt_g.step()
        return loss_d.item(), loss_g.item()

    @torch.no_grad()
    def sample(self, n):
        self.gen.eval()
        x = self.gen(torch.randn(n, self.cfg.latent))
        self.gen.train()
        return x


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    train, held_out = measurements(6000), measurements(2000)
    mu, sd = train.mean(0), train.std(0)
    train, held_out = (train - mu) / sd, (held_out - mu) / sd
    trainer = GanTrainer(cfg)
    sum_d = sum_g = 0.0
    step = 0
    while step < cfg.steps:
        for idx in torch.randperm(len(train)).split(cfg.batch):
            ld, lg = trainer.train_step(train[idx])
            sum_d, sum_g, step = sum_d + ld, sum_g + lg, step + 1
            if step % 100 == 0:
                sw = sliced_wasserstein(trainer.sample(len(held_out)), held_out)
                print(f"step {step:4d}  loss_d {sum_d / 100:.3f}  loss_g {sum_g / 100:.3f}  sliced W {sw:.3f}")
                sum_d = sum_g = 0.0
            if step == cfg.steps:
                break
    torch.save(trainer.gen.state_dict(), "/tmp/spectra_generator.pt")


if __name__ == "__main__":
    main()
