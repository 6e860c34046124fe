import gzip
import os
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

DATA = os.environ["TRUELOOP_DATA"]


def images(part, n):
    with gzip.open(f"{DATA}/mnist/{part}-images-idx3-ubyte.gz") as fh:
        buf = fh.read(16 + 784 * n)
    a = np.frombuffer(buf, np.uint8, offset=16).reshape(n, 784)
    return torch.from_numpy(a.astype(np.float32) / 255)


class VAE(nn.Module):
    def __init__(self, hidden=200, z=12):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(784, hidden), nn.ReLU())
        self.mu = nn.Linear(hidden, z)
        self.logvar = nn.Linear(hidden, z)
        self.dec = nn.Sequential(nn.Linear(z, hidden), nn.ReLU(), nn.Linear(hidden, 784))

    def encode(self, x):
        h = self.enc(x)
        return self.mu(h), self.logvar(h)

    def forward(self, x):
        mu, logvar = self.encode(x)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return self.dec(z), mu, logvar


def elbo_terms(logits, x, mu, logvar):
    rec = F.binary_cross_entropy_with_logits(logits, x, reduction="mean")
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
    return rec, kl


def main():
    torch.manual_seed(11)
    xtr, xte = images("train", 5000), images("t10k", 1000)
    model = VAE()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    for ep in range(8):
        model.train()
        tr, tk, nb = 0.0, 0.0, 0
        for idx in torch.randperm(len(xtr)).split(128):
            x = xtr[idx]
            rec, kl = elbo_terms(*((lambda o: (o[0], x, o[1], o[2]))(model(x))))
            loss = rec + kl
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            tr, tk, nb = tr + rec.item(), tk + kl.item(), nb + 1
        print(f"epoch {ep:2d} rec {tr / nb:.4f} kl {tk / nb:.4f}")
    model.eval()
    with torch.no_grad():
        mu, _ = model.encode(xte)
        err = (torch.sigmoid(model.dec(mu)) - xte).pow(2).sum(1).mean()
    print("final test reconstruction squared error", err.item())


if __name__ == "__main__":
    main()
