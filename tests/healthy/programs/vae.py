"""A variational autoencoder on small drawn bars, with KL warm-up and sampling after each epoch."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

SIDE = 12
LATENT = 4
EPOCHS = 4


def draw_bars(count):
    images = torch.zeros(count, 1, SIDE, SIDE)
    for image in images:
        row = int(torch.randint(0, SIDE - 3, ()))
        width = int(torch.randint(3, SIDE, ()))
        image[0, row : row + 3, :width] = 1.0
    return images


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 16, 3, stride=2, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(inplace=True),
            nn.Flatten(),
            nn.Linear(16 * 36, 64),
            nn.ReLU(inplace=True),
        )
        self.mu = nn.Linear(64, LATENT)
        self.logvar = nn.Linear(64, LATENT)
        self.decoder = nn.Sequential(nn.Linear(LATENT, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, SIDE * SIDE))

    def encode(self, x):
        h = self.encoder(x)
        return self.mu(h), self.logvar(h)

    def reparameterize(self, mu, logvar):
        if not self.training:
            return mu
        std = torch.exp(0.5 * logvar)
        return mu + std * torch.randn_like(std)

    def decode(self, z):
        return torch.sigmoid(self.decoder(z)).view(-1, 1, SIDE, SIDE)

    def forward(self, x):
        mu, logvar = self.encode(x)
        return self.decode(self.reparameterize(mu, logvar)), mu, logvar


def loss_function(recon, x, mu, logvar, beta):
    bce = F.binary_cross_entropy(recon, x, reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return bce + beta * kld


def train(model, loader, optimizer, epoch):
    model.train()
    total = 0.0
    beta = min(1.0, epoch / 3)
    for (x,) in loader:
        optimizer.zero_grad()
        recon, mu, logvar = model(x)
        loss = loss_function(recon, x, mu, logvar, beta)
        loss.backward()
        total += loss.item()
        optimizer.step()
    return total / len(loader.dataset)


@torch.no_grad()
def test(model, loader):
    model.eval()
    total = 0.0
    for (x,) in loader:
        recon, mu, logvar = model(x)
        total += loss_function(recon, x, mu, logvar, 1.0).item()
    return total / len(loader.dataset)


def main():
    torch.manual_seed(0)
    train_loader = DataLoader(TensorDataset(draw_bars(256)), batch_size=32, shuffle=True)
    test_loader = DataLoader(TensorDataset(draw_bars(64)), batch_size=64)
    model = VAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(1, EPOCHS + 1):
        train_loss = train(model, train_loader, optimizer, epoch)
        test_loss = test(model, test_loader)
        with torch.no_grad():
            sample = model.decode(torch.randn(8, LATENT))
        print(f"epoch {epoch} train {train_loss:.3f} test {test_loss:.3f} ink {sample.mean():.3f}")


if __name__ == "__main__":
    main()
