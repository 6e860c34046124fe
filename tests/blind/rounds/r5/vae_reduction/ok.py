import os
import gzip
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

PATH = os.environ["TRUELOOP_DATA"] + "/fashion-mnist/t10k-images-idx3-ubyte.gz"
LATENT, BATCH, EPOCHS = 8, 64, 8


def load(n):
    with gzip.open(PATH) as f:
        raw = np.frombuffer(f.read(16 + n * 784), dtype=np.uint8, offset=16)
    img = raw.reshape(n, 14, 2, 14, 2).mean((2, 4)) / 255
    return torch.tensor(img.reshape(n, 196), dtype=torch.float32)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(196, 128), nn.ReLU())
        self.mu, self.logvar = nn.Linear(128, LATENT), nn.Linear(128, LATENT)
        self.dec = nn.Sequential(nn.Linear(LATENT, 128), nn.ReLU(), nn.Linear(128, 196))

    def forward(self, x):
        h = self.enc(x)
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar) if self.training else mu
        return self.dec(z), mu, logvar


def elbo_loss(logits, x, mu, logvar):
    recon = F.binary_cross_entropy_with_logits(logits, x, reduction="sum") / len(x)
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
    return recon + kl, recon, kl


def main():
    torch.manual_seed(4)
    images = load(3000)
    train, valid = images[:2500], images[2500:]
    model = VAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(EPOCHS):
        model.train()
        sums = np.zeros(3)
        batches = torch.randperm(len(train)).split(BATCH)
        for idx in batches:
            x = train[idx]
            optimizer.zero_grad()
            logits, mu, logvar = model(x)
            loss, recon, kl = elbo_loss(logits, x, mu, logvar)
            loss.backward()
            optimizer.step()
            sums += [loss.item(), recon.item(), kl.item()]
        loss, recon, kl = sums / len(batches)
        print(f"epoch {epoch} loss {loss:.3f} recon {recon:.3f} kl {kl:.3f}")
    model.eval()
    with torch.no_grad():
        logits, mu, _ = model(valid)
        mse = F.mse_loss(torch.sigmoid(logits), valid).item()
    baseline = F.mse_loss(train.mean(0).expand_as(valid), valid).item()
    print(f"valid reconstruction mse {mse:.4f} (mean image {baseline:.4f}), spread of mu {mu.std(0).mean():.3f}")


if __name__ == "__main__":
    main()
