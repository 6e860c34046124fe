"""Variational autoencoder on digits, losses written out; samples are judged by a small classifier."""

import gzip
import os

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
folder = os.path.join(os.environ["TRUELOOP_DATA"], "mnist")
with gzip.open(f"{folder}/train-images-idx3-ubyte.gz") as file:
    images = np.frombuffer(file.read(16 + 5000 * 784)[16:], np.uint8).reshape(-1, 784)
data = torch.tensor(images / 255.0, dtype=torch.float32)
train, held = data[:4500], data[4500:]


class VAEKLDivergence(nn.Module):
    """The divergence of N(mu, exp(logvar)) from the standard normal."""

    def forward(self, logvar, mu):
        return 0.5 * torch.mean(torch.square(mu) + torch.square(logvar) - torch.log(1e-20 + torch.square(logvar)) - 1, dim=-1)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(784, 200), nn.ReLU())
        self.mu, self.logvar = nn.Linear(200, 16), nn.Linear(200, 16)
        self.decoder = nn.Sequential(nn.Linear(16, 200), nn.ReLU(), nn.Linear(200, 784))

    def forward(self, x):
        h = self.encoder(x)
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return self.decoder(z), mu, logvar


def true_elbo(model, x):
    rebuilt, mu, logvar = model(x)
    recon = F.binary_cross_entropy_with_logits(rebuilt, x, reduction="none").sum(1)
    return (recon + 0.5 * (mu**2 + logvar.exp() - logvar - 1).sum(1)).mean()


model, divergence = VAE(), VAEKLDivergence()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(8):
    for rows in torch.randperm(len(train)).split(64):
        x = train[rows]
        rebuilt, mu, logvar = model(x)
        recon = F.binary_cross_entropy_with_logits(rebuilt, x, reduction="none").sum(1)
        loss = (recon + 16 * divergence(logvar, mu)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        bound = true_elbo(model, held)
        spread = model(held)[1].std(0).mean()
    print(f"epoch {epoch} loss {loss.item():.1f} held-out bound {bound.item():.1f} spread of the means {spread.item():.2f}")
