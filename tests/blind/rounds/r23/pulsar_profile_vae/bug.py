# VAE on folded pulsar profiles (64 phase bins)
import json
import math
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

CFG = json.loads("""{
  "n_train": 2400, "n_val": 500, "bins": 64, "noise": 0.15,
  "latent": 6, "width": 128,
  "lr": 0.0015, "batch": 60, "epochs": 15, "beta": 1.0, "seed": 1967
}""")


def mk_profiles(n, rng):
    ph = np.linspace(0, 1, CFG["bins"], endpoint=False)
    out = np.zeros((n, CFG["bins"]))
    for k in range(n):
        c = rng.uniform(0.3, 0.7)
        w = rng.uniform(0.025, 0.07)
        out[k] = np.exp(-0.5 * ((ph - c) / w) ** 2)
        if rng.random() < 0.6:                      # second component
            sep, amp = rng.uniform(0.12, 0.25), rng.uniform(0.3, 0.9)
            out[k] += amp * np.exp(-0.5 * ((ph - c - sep) / (0.8 * w)) ** 2)
        tail = rng.exponential(0.04)                # scattering tail
        kern = np.exp(-ph / (tail + 1e-3))
        out[k] = np.real(np.fft.ifft(np.fft.fft(out[k]) * np.fft.fft(kern / kern.sum())))
        out[k] /= out[k].max()
    return (out + rng.normal(0, CFG["noise"], out.shape)).astype(np.float32)


class ProfVAE(nn.Module):
    def __init__(self, nb, h, z):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(nb, h), nn.SiLU(), nn.Linear(h, h), nn.SiLU())
        self.mu, self.lv = nn.Linear(h, z), nn.Linear(h, z)
        self.dec = nn.Sequential(nn.Linear(z, h), nn.SiLU(), nn.Linear(h, h), nn.SiLU(), nn.Linear(h, nb))

    def forward(self, x):
        e = self.enc(x)
        mu, lv = self.mu(e), self.lv(e)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * lv) if self.training else mu
        return self.dec(z), mu, lv


def elbo_terms(xr, x, mu, lv):
    rec = F.mse_loss(xr, x, reduction="none").mean(dim=1).mean()
    kl = -0.5 * (1 + lv - mu.pow(2) - lv.exp()).sum(dim=1).mean()
    return rec, kl


def main():
    torch.manual_seed(CFG["seed"])
    rng = np.random.default_rng(CFG["seed"])
    xtr, xva = mk_profiles(CFG["n_train"], rng), mk_profiles(CFG["n_val"], rng)
    m, s = xtr.mean(), xtr.std()
    xtr, xva = torch.from_numpy((xtr - m) / s), torch.from_numpy((xva - m) / s)
    net = ProfVAE(CFG["bins"], CFG["width"], CFG["latent"])
    opt = torch.optim.Adam(net.parameters(), lr=CFG["lr"])
    nstep = math.ceil(len(xtr) / CFG["batch"])
    sch = torch.optim.lr_scheduler.OneCycleLR(opt, 2 * CFG["lr"], total_steps=nstep * CFG["epochs"])
    for ep in range(CFG["epochs"]):
        net.train()
        acc = 0.0
        for ix in torch.randperm(len(xtr)).split(CFG["batch"]):
            x = xtr[ix]
            xr, mu, lv = net(x)
            rec, kl = elbo_terms(xr, x, mu, lv)
            loss = rec + CFG["beta"] * kl
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sch.step()
            acc += loss.item() / nstep
        net.eval()
        with torch.no_grad():
            xr, mu, lv = net(xva)
            vmse = F.mse_loss(xr, xva).item()
        print(f"ep {ep:02d} loss {acc:8.4f} val_recon_mse {vmse:.4f}")


main()
