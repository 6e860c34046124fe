import math

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(15)
DIM, LATENT = 30, 3
mixing = torch.randn(5, DIM)
base = 3 + 4 * torch.rand(DIM)


def spectra(n):
    f = torch.randn(n, 3)
    f = torch.cat([f, f[:, :1] * f[:, 1:2], f[:, 2:].abs()], 1)
    return base + f @ mixing + 0.3 * torch.randn(n, DIM)


class Scaler:
    def fit(self, x):
        self.mean = x.mean(0)
        centered = x.sub(self.mean)
        self.scale = centered.square().mean(0).sqrt()
        return self

    def transform(self, x):
        return (x - self.mean) / self.scale


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(DIM, 64), nn.SiLU(), nn.Linear(64, 2 * LATENT))
        self.dec = nn.Sequential(nn.Linear(LATENT, 64), nn.SiLU(), nn.Linear(64, DIM))
        self.log_noise = nn.Parameter(torch.zeros(()))

    def terms(self, x):
        mu, logvar = self.enc(x).chunk(2, dim=1)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp() if self.training else mu
        rec = self.dec(z)
        kl = 0.5 * (mu.square() + logvar.exp() - 1 - logvar).sum(1)
        nll = 0.5 * ((x - rec).square() / (2 * self.log_noise).exp() + 2 * self.log_noise + math.log(2 * math.pi)).sum(1)
        return rec, nll, kl


train_raw, valid_raw = spectra(2000), spectra(500)
scaler = Scaler().fit(train_raw)
train, valid = scaler.transform(train_raw), scaler.transform(valid_raw)

vae = VAE()
opt = torch.optim.Adam(vae.parameters(), lr=4e-3)
for epoch in range(14):
    vae.train()
    running = 0.0
    for rows in torch.randperm(len(train)).split(100):
        _, nll, kl = vae.terms(train[rows])
        loss = (nll + kl).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        running += loss.item() * len(rows) / len(train)
    vae.eval()
    with torch.no_grad():
        rec, nll, kl = vae.terms(valid)
        mse = F.mse_loss(rec, valid)
    print(f"epoch {epoch:2d}  train bound {running:.3f}  valid bound {(nll + kl).mean():.3f}  valid rec mse {mse:.4f}")
