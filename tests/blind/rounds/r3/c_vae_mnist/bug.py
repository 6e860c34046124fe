import gzip, os
import struct

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ROOT = os.environ["TRUELOOP_DATA"] + "/mnist"
torch.manual_seed(0)
N_TRAIN, N_TEST, EPOCHS, BATCH, LATENT = 4000, 800, 6, 64, 12


def load_images(name, n):
    with gzip.open(f"{ROOT}/{name}-images-idx3-ubyte.gz") as f:
        _, total, h, w = struct.unpack(">IIII", f.read(16))
        raw = np.frombuffer(f.read(n * h * w), dtype=np.uint8)
    return torch.from_numpy(raw.reshape(n, h * w).astype(np.float32) / 255)


class VAE(nn.Module):
    def __init__(self, hidden=256):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(784, hidden), nn.ReLU())
        self.mu, self.logvar = nn.Linear(hidden, LATENT), nn.Linear(hidden, LATENT)
        self.dec = nn.Sequential(nn.Linear(LATENT, hidden), nn.ReLU(), nn.Linear(hidden, 784))

    def forward(self, x):
        h = self.enc(x)
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu
        if self.training:
            z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.dec(z), mu, logvar


def elbo_terms(logits, x, mu, logvar):
    recon = F.binary_cross_entropy_with_logits(logits, x)
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
    return recon, kl


@torch.no_grad()
def evaluate(model, images):
    model.eval()
    logits, mu, logvar = model(images)
    mse = (torch.sigmoid(logits) - images).pow(2).mean()
    baseline = (images.mean(0) - images).pow(2).mean()
    active = (mu.var(0) > 0.01).sum().item()
    return mse.item(), baseline.item(), active


train_x, test_x = load_images("train", N_TRAIN), load_images("t10k", N_TEST)
loader = DataLoader(TensorDataset(train_x), batch_size=BATCH, shuffle=True)
model = VAE()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(1, EPOCHS + 1):
    model.train()
    tot_r = tot_k = 0.0
    for (x,) in loader:
        logits, mu, logvar = model(x)
        recon, kl = elbo_terms(logits, x, mu, logvar)
        loss = recon + kl
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        tot_r += recon.item()
        tot_k += kl.item()
    mse, baseline, active = evaluate(model, test_x)
    print(f"epoch {epoch} recon {tot_r / len(loader):.3f} kl {tot_k / len(loader):.4f} test mse {mse:.4f}")
print(f"test mse {mse:.4f} (mean image {baseline:.4f}), active latents {active}/{LATENT}")
