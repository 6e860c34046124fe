"""Denoising autoencoder on pump vibration spectra; faults show up as high reconstruction error."""
import argparse

import torch
from torch import nn

BANDS = 48


def spectra(n, gen, fault=False):
    """Band energies of a pump at varying speed and load: a few harmonics on a noise floor."""
    speed = 6 + 3 * torch.rand(n, 1, generator=gen)
    load = 0.5 + torch.rand(n, 1, generator=gen)
    band = torch.arange(BANDS).float()[None, :]
    out = 0.05 * load * torch.ones(n, BANDS)
    for k, amp in ((1, 1.0), (2, 0.6), (3, 0.4), (4, 0.25)):
        out = out + amp * load * torch.exp(-0.5 * ((band - k * speed) / 1.2) ** 2)
    if fault:
        side = 0.11 * load * (0.5 + torch.rand(n, 1, generator=gen))
        for k in (1.5, 2.5, 3.5):
            out = out + side * torch.exp(-0.5 * ((band - k * speed) / 0.9) ** 2)
    return out + 0.02 * torch.randn(n, BANDS, generator=gen)


class DenoisingAE(nn.Module):
    def __init__(self, latent=4):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(BANDS, 64), nn.ReLU(), nn.Linear(64, latent))
        self.dec = nn.Sequential(nn.Linear(latent, 64), nn.ReLU(), nn.Linear(64, BANDS))

    def forward(self, x):
        return self.dec(self.enc(x))


@torch.no_grad()
def anomaly_score(model, x):
    model.eval()
    return ((model(x) - x) ** 2).mean(1)


def auc(neg, pos):
    return (pos[:, None] > neg[None, :]).float().mean().item()


def train_epoch(model, opt, train, batch_size, sigma):
    model.train()
    total = 0.0
    for xb in train.split(batch_size):
        noisy = xb
        noisy += sigma * torch.randn_like(xb)
        loss = ((model(noisy) - xb) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(xb)
    return total / len(train)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=35)
    ap.add_argument("--batch-size", type=int, default=64)
    ap.add_argument("--sigma", type=float, default=0.3, help="std of the corruption, in standardised units")
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--seed", type=int, default=21)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    gen = torch.Generator().manual_seed(args.seed)

    train = spectra(2400, gen)
    holdout = spectra(600, gen)
    test_ok, test_bad = spectra(500, gen), spectra(500, gen, fault=True)
    mean, std = train.mean(0), train.std()
    train, holdout, test_ok, test_bad = ((t - mean) / std for t in (train, holdout, test_ok, test_bad))

    model = DenoisingAE()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs)
    for epoch in range(args.epochs):
        train = train[torch.randperm(len(train))]
        loss = train_epoch(model, opt, train, args.batch_size, args.sigma)
        sched.step()
        if epoch % 5 == 4:
            print(f"epoch {epoch + 1:3d} train {loss:.4f} holdout {anomaly_score(model, holdout).mean():.4f}")

    limit = anomaly_score(model, holdout).quantile(0.98)
    s_ok, s_bad = anomaly_score(model, test_ok), anomaly_score(model, test_bad)
    print(f"alarm limit {limit:.4f}")
    print(f"false alarms {(s_ok > limit).float().mean():.3f}  detected faults {(s_bad > limit).float().mean():.3f}"
          f"  auc {auc(s_ok, s_bad):.3f}")


if __name__ == "__main__":
    main()
