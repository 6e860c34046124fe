"""VAE on per-window log-template counts; anomaly score is the reconstruction error."""
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Config:
    templates: int = 40
    services: int = 5
    latent: int = 6
    hidden: int = 48
    beta: float = 0.5
    epochs: int = 25
    batch: int = 64
    lr: float = 2e-3
    seed: int = 4


def log_windows(cfg, n, seed, anomalous=False):
    """Templates of one service rise and fall together; an anomaly mixes them up."""
    mix = np.random.default_rng(77).gamma(1.0, 2.0, (cfg.services, cfg.templates))
    rng = np.random.default_rng(seed)
    load = rng.gamma(2.0, 1.0, (n, cfg.services))
    rate = load @ mix
    if anomalous:
        for row in rate:
            cols = rng.choice(cfg.templates, 12, replace=False)
            row[cols] = row[rng.permutation(cols)]
    return np.log1p(rng.poisson(rate)).astype(np.float32)


class LogVAE(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(cfg.templates, cfg.hidden), nn.ReLU())
        self.mu = nn.Linear(cfg.hidden, cfg.latent)
        self.logvar = nn.Linear(cfg.hidden, cfg.latent)
        self.dec = nn.Sequential(nn.Linear(cfg.latent, cfg.hidden), nn.ReLU(),
                                 nn.Linear(cfg.hidden, cfg.templates))

    def forward(self, x):
        h = self.enc(x)
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp() if self.training else mu
        return self.dec(z), mu, logvar


def elbo(recon, x, mu, logvar, beta):
    rec = F.mse_loss(recon, x, reduction="none").sum(1)
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1)
    return rec.mean(), beta * kl.mean()


@torch.no_grad()
def anomaly_scores(model, x):
    model.eval()
    recon, _, _ = model(x)
    return ((recon - x) ** 2).mean(1)


def auc(neg, pos):
    return (pos[:, None] > neg[None, :]).float().mean().item()


def main(cfg):
    torch.manual_seed(cfg.seed)
    train = log_windows(cfg, 2000, 1)
    mean, std = train.mean(0), train.std(0)

    def prep(a):
        return torch.from_numpy((a - mean) / std)

    x = prep(train)
    normal = prep(log_windows(cfg, 500, 2))
    odd = prep(log_windows(cfg, 200, 3, anomalous=True))

    model = LogVAE(cfg)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    for epoch in range(cfg.epochs):
        model.train()
        rec_sum = kl_sum = 0.0
        for idx in torch.randperm(len(x)).split(cfg.batch):
            xb = x[idx]
            recon, mu, logvar = model(xb)
            rec, kl = elbo(recon, xb, mu, logvar, cfg.beta)
            loss = rec + kl
            opt.zero_grad()
            loss.backward()
            opt.step()
            rec_sum += rec.item() * len(xb)
            kl_sum += kl.item() * len(xb)
        if epoch % 4 == 0 or epoch == cfg.epochs - 1:
            a = auc(anomaly_scores(model, normal), anomaly_scores(model, odd))
            print(f"epoch {epoch:2d} rec {rec_sum / len(x):.3f} kl {kl_sum / len(x):.3f} AUC {a:.3f}")


if __name__ == "__main__":
    main(Config())
