"""A variational autoencoder: reconstruction and divergence, summed."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(7)
codes = torch.randn(480, 3)
images = torch.sigmoid(codes @ torch.randn(3, 36))
train = DataLoader(TensorDataset(images[:400]), batch_size=40, shuffle=True)
valid = DataLoader(TensorDataset(images[400:]), batch_size=40)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(36, 32), nn.ReLU())
        self.mean, self.log_variance = nn.Linear(32, 3), nn.Linear(32, 3)
        self.decoder = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 36))

    def forward(self, x):
        hidden = self.encoder(x)
        mean, log_variance = self.mean(hidden), self.log_variance(hidden)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance) if self.training else mean
        return self.decoder(z), mean, log_variance


model = VAE()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(12):
    model.train()
    for (x,) in train:
        logits, mean, log_variance = model(x)
        reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="sum") / len(x)
        divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum() / len(x)
        loss = reconstruction + divergence
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        for (x,) in valid:
            logits, mean, log_variance = model(x)
