import argparse
import math

import torch
from torch import nn
import torch.nn.functional as F

ap = argparse.ArgumentParser()
ap.add_argument("--latent", type=int, default=6)
ap.add_argument("--epochs", type=int, default=20)
ap.add_argument("--lr", type=float, default=2e-3)
ap.add_argument("--beta", type=float, default=1.0)
args = ap.parse_args()
torch.manual_seed(31)


def press_cycles(n, length=64):
    """Force curves of a press: ramp, peak, hold, release, ringing."""
    t = torch.linspace(0, 1, length).expand(n, length)
    u = lambda lo, hi: torch.rand(n, 1) * (hi - lo) + lo
    start, peak, hold, end = u(.1, .25), u(.8, 2.0), u(.4, .9), u(.6, .85)
    rise = torch.sigmoid((t - start) * 45)
    fall = torch.sigmoid((end - t) * 60)
    level = hold + (peak - hold) * torch.exp(-((t - start - .08) / .07).clamp(min=0) ** 2)
    ring = u(0, .35) * torch.exp(-(t - end).clamp(min=0) * 9) * torch.sin((t - end) * u(35, 60)) * (t > end)
    x = level * rise * fall + ring + 0.03 * torch.randn(n, length)
    return (x - 0.5) / 0.5


class CurveVAE(nn.Module):
    def __init__(self, length=64, latent=6, hidden=96):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(length, hidden), nn.ReLU(), nn.Linear(hidden, 2 * latent))
        self.dec = nn.Sequential(nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, length))

    def forward(self, x):
        mu, logvar = self.enc(x).chunk(2, dim=1)
        z = mu + torch.exp(0.5 * logvar) * torch.randn_like(mu)
        return self.dec(z), mu, logvar


def elbo_loss(recon, x, mu, logvar):
    rec = F.mse_loss(recon, x, reduction="sum") / x.size(0)
    kl = -0.5 * (1 + logvar - mu ** 2 - logvar.exp()).sum(1).mean()
    return rec + args.beta * kl, rec, kl


train, test = press_cycles(3000), press_cycles(600)
model = CurveVAE(latent=args.latent)
opt = torch.optim.Adam(model.parameters(), lr=args.lr)
for epoch in range(1, args.epochs + 1):
    sums = torch.zeros(3)
    batches = torch.randperm(len(train)).split(100)
    for ix in batches:
        out = model(train[ix])
        loss, rec, kl = elbo_loss(out[0], train[ix], *out[1:])
        opt.zero_grad()
        loss.backward()
        opt.step()
        sums += torch.stack([loss, rec, kl]).detach()
    if epoch % 4 == 0:
        l, r, k = (sums / len(batches)).tolist()
        print(f"epoch {epoch}: loss {l:.4f} recon {r:.4f} kl {k:.4f}")

with torch.no_grad():
    mu = model.enc(test).chunk(2, dim=1)[0]
    mse = (model.dec(mu) - test).pow(2).mean().item()
print(f"test reconstruction MSE {mse:.4f} (variance of the test curves {test.var().item():.4f})")
