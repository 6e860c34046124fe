"""VAE over accelerometer windows; reconstruction error flags bearing faults."""
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Settings:
    window: int = 48
    channels: int = 3
    latent: int = 8
    hidden: int = 96
    epochs: int = 25
    batch_size: int = 64
    lr: float = 2e-3
    beta: float = 0.5


def sensor_windows(rng, n, s, faulty=False):
    t = np.arange(s.window)
    freq = rng.uniform(0.15, 0.45, size=(n, 1, 1))
    phase = rng.uniform(0, 2 * np.pi, size=(n, 1, 1))
    amp = rng.uniform(0.7, 1.5, size=(n, 1, 1))
    lag = np.array([0.0, 0.9, 2.1]).reshape(1, 3, 1)
    x = amp * np.sin(freq * t + phase + lag)
    x = x + rng.normal(0, 0.1, size=x.shape)
    if faulty:
        centre = rng.uniform(10, s.window - 10, size=(n, 1, 1))
        burst = np.exp(-0.5 * ((t - centre) / 2.5) ** 2) * np.sin(2.2 * t)
        x = x + 0.8 * burst
    return x.astype(np.float32)


class VAE(nn.Module):
    def __init__(self, s):
        super().__init__()
        d = s.window * s.channels
        self.enc = nn.Sequential(nn.Flatten(), nn.Linear(d, s.hidden), nn.ReLU(),
                                 nn.Linear(s.hidden, s.hidden), nn.ReLU())
        self.mu = nn.Linear(s.hidden, s.latent)
        self.logvar = nn.Linear(s.hidden, s.latent)
        self.dec = nn.Sequential(nn.Linear(s.latent, s.hidden), nn.ReLU(),
                                 nn.Linear(s.hidden, s.hidden), nn.ReLU(),
                                 nn.Linear(s.hidden, d), nn.Unflatten(1, (s.channels, s.window)))

    def forward(self, x):
        h = self.enc(x)
        mu, logvar = self.mu(h), self.logvar(h).clamp(-8, 8)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp() if self.training else mu
        return self.dec(z), mu, logvar


def elbo(recon, x, mu, logvar, beta):
    rec = F.mse_loss(recon, x, reduction="none").flatten(1).sum(1).mean()
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
    return rec + beta * kl, rec, kl


def auc(neg, pos):
    scores = np.concatenate([neg, pos])
    ranks = scores.argsort().argsort() + 1
    return (ranks[len(neg):].sum() - len(pos) * (len(pos) + 1) / 2) / (len(neg) * len(pos))


class Trainer:
    def __init__(self, s):
        rng = np.random.default_rng(21)
        train = sensor_windows(rng, 4000, s)
        self.mean = train.mean(axis=(0, 2), keepdims=True)
        self.std = train.std(axis=(0, 2), keepdims=True)
        self.val = self.prep(sensor_windows(rng, 600, s))
        self.fault = self.prep(sensor_windows(rng, 600, s, faulty=True))
        self.loader = DataLoader(TensorDataset(self.prep(train)), s.batch_size, shuffle=True)
        self.s, self.model = s, VAE(s)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=s.lr)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, s.epochs)

    def prep(self, x):
        return torch.from_numpy((x - self.mean) / self.std)

    def errors(self, x):
        self.model.eval()
        with torch.no_grad():
            recon, _, _ = self.model(x)
        return (recon - x).pow(2).flatten(1).mean(1).numpy()

    def run(self):
        for epoch in range(self.s.epochs):
            self.model.train()
            sums = np.zeros(3)
            for (x,) in self.loader:
                recon, mu, logvar = self.model(x)
                loss, rec, kl = elbo(recon, x, mu, logvar, self.s.beta)
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                sums += [loss.item(), rec.item(), kl.item()]
            self.sched.step()
            loss, rec, kl = sums / len(self.loader)
            ev, ef = self.errors(self.val), self.errors(self.fault)
            print(f"epoch {epoch:2d} loss {loss:.3f} rec {rec:.3f} kl {kl:.3f} | "
                  f"val mse {ev.mean():.4f} fault auc {auc(ev, ef):.4f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(21)
    Trainer(Settings()).run()
