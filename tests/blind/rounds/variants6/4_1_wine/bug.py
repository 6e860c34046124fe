import numpy as np
import pandas as pd
import torch
from torch import nn
import torch.nn.functional as F

COLUMNS = ["alcohol", "density", "sugar", "acidity", "ph", "sulphates", "colour"]


def wines(n, seed):
    rng = np.random.default_rng(seed)
    ripeness, freshness = rng.normal(size=n), rng.normal(size=n)
    alcohol = 11 + 1.1 * ripeness + rng.normal(0, 0.2, n)
    sugar = np.exp(0.9 + 0.5 * np.tanh(ripeness) - 0.3 * freshness + rng.normal(0, 0.1, n))
    density = 0.997 - 0.0012 * (alcohol - 11) + 0.0004 * sugar + rng.normal(0, 2e-4, n)
    acidity = 6.8 + 0.9 * freshness + rng.normal(0, 0.2, n)
    ph = 3.9 - 0.09 * acidity + rng.normal(0, 0.02, n)
    sulphates = 0.5 + 0.05 * freshness * ripeness + rng.normal(0, 0.03, n)
    colour = 4 + 1.5 * ripeness ** 2 / (1 + ripeness ** 2) + rng.normal(0, 0.2, n)
    return pd.DataFrame(np.stack([alcohol, density, sugar, acidity, ph, sulphates, colour], 1), columns=COLUMNS)


class VAE(nn.Module):
    def __init__(self, d, latent=3, width=64):
        super().__init__()
        self.latent = latent
        self.enc = nn.Sequential(nn.Linear(d, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())
        self.mu, self.logvar = nn.Linear(width, latent), nn.Linear(width, latent)
        self.dec = nn.Sequential(nn.Linear(latent, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(),
                                 nn.Linear(width, d))
        self.log_scale = nn.Parameter(torch.zeros(d))

    def encode(self, x):
        h = self.enc(x)
        return self.mu(h), self.logvar(h)

    def reparam(self, mu, logvar):
        std = (0.5 * logvar).exp()
        return mu + std * torch.rand_like(std)

    def forward(self, x):
        mu, logvar = self.encode(x)
        return self.dec(self.reparam(mu, logvar)), mu, logvar

    @torch.no_grad()
    def sample(self, n):
        out = self.dec(torch.randn(n, self.latent))
        return out + self.log_scale.exp() * torch.randn_like(out)


def elbo_loss(model, x):
    rec, mu, logvar = model(x)
    nll = F.gaussian_nll_loss(rec, x, (2 * model.log_scale).exp().expand_as(x), reduction="none").sum(1)
    kl = 0.5 * (mu ** 2 + logvar.exp() - 1 - logvar).sum(1)
    return (nll + kl).mean(), kl.mean().item()


def sliced_w1(a, b):
    g = torch.Generator().manual_seed(5)
    proj = F.normalize(torch.randn(a.shape[1], 200, generator=g), dim=0)
    return ((a @ proj).sort(0).values - (b @ proj).sort(0).values).abs().mean().item()


if __name__ == "__main__":
    torch.manual_seed(17)
    df = wines(7500, 17)
    train, test = df.iloc[:6000], df.iloc[6000:]
    center, spread = train.mean(), train.std()
    to_t = lambda f: torch.tensor(((f - center) / spread).to_numpy(), dtype=torch.float32)
    xtr, xte = to_t(train), to_t(test)
    vae = VAE(len(COLUMNS))
    opt = torch.optim.Adam(vae.parameters(), lr=2e-3)
    for epoch in range(20):
        vae.train()
        for idx in torch.randperm(len(xtr)).split(128):
            loss, kl = elbo_loss(vae, xtr[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
        if epoch % 5 == 0:
            print(f"epoch {epoch:2d} negative elbo {loss.item():.3f} kl {kl:.3f}")
    vae.eval()
    print(f"sliced distance of prior samples to test wines: {sliced_w1(vae.sample(len(xte)), xte):.4f}")
