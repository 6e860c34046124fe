import math
import torch
from torch import nn

torch.manual_seed(1)


def ring(n):
    a = 2 * math.pi * torch.rand(n)
    lift = torch.linspace(0.5, 2.0, 16)
    return torch.sin(a[:, None] * 1.0 + lift) * 1.5 + 0.05 * torch.randn(n, 16)


class VAE(nn.Module):
    def __init__(self, d=16, z=3, h=64):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(d, h), nn.ReLU(), nn.Linear(h, 2 * z))
        self.dec = nn.Sequential(nn.Linear(z, h), nn.ReLU(), nn.Linear(h, d))

    def forward(self, x):
        mu, logvar = self.enc(x).chunk(2, dim=-1)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp() if self.training else mu
        return self.dec(z), mu, logvar


def terms(out, x):
    recon, mu, logvar = out
    rec = ((recon - x) ** 2).sum(-1).mean()
    kl = 0.5 * (mu ** 2 + logvar.exp() - 1 - logvar).sum(-1).mean()
    return rec, kl


data, held = ring(3000), ring(500)
vae = VAE()
opt = torch.optim.Adam(vae.parameters(), lr=2e-3)
beta = 0.05

for epoch in range(7):
    vae.train()
    sums = torch.zeros(2)
    n = 0
    for x in data[torch.randperm(len(data))].split(100):
        rec, kl = terms(vae(x), x)
        opt.zero_grad()
        rec.backward(retain_graph=True)
        (beta * kl).backward()
        opt.step()
        sums += torch.stack([rec, kl]).detach()
        n += 1
    vae.eval()
    with torch.no_grad():
        v_rec, v_kl = terms(vae(held), held)
    print(f"epoch {epoch} rec {sums[0] / n:.3f} kl {sums[1] / n:.3f} | held-out rec {v_rec:.3f} kl {v_kl:.3f}")
