import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(71)
SIDE, LATENT = 10, 4


def stripes(n):
    axis = torch.linspace(-1, 1, SIDE)
    angle, shift = 3.1416 * torch.rand(n, 1, 1), torch.rand(n, 1, 1) - 0.5
    d = axis.view(1, -1, 1) * angle.sin() + axis.view(1, 1, -1) * angle.cos() - shift
    ink = torch.sigmoid(20 * (0.25 - d.abs()))
    return torch.bernoulli(0.96 * ink + 0.02).flatten(1)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(SIDE * SIDE, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU())
        self.mean, self.log_var = nn.Linear(64, LATENT), nn.Linear(64, LATENT)

    def forward(self, x):
        h = self.body(x)
        return self.mean(h), self.log_var(h)


def decoder():
    return nn.Sequential(nn.Linear(LATENT, 64), nn.ReLU(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, SIDE * SIDE))


def bound(encode, decode, x, noise=True):
    mean, log_var = encode(x)
    z = mean + torch.randn_like(mean) * (0.5 * log_var).exp() if noise else mean
    pixels = F.binary_cross_entropy_with_logits(decode(z), x, reduction="none")
    misfit = pixels.flatten(1).mean(dim=1).mean()
    price = 0.5 * (mean ** 2 + log_var.exp() - 1 - log_var).sum(dim=1).mean()
    return misfit + price, price, pixels.mean()


train, val = stripes(2000), stripes(400)
encode, decode = Encoder(), decoder()
weights = list(encode.parameters()) + list(decode.parameters())
optimizer = torch.optim.Adam(weights, lr=2e-3)
base_rate = train.mean(0).clamp(0.01, 0.99)
floor = F.binary_cross_entropy(base_rate.expand_as(val), val).item()
for epoch in range(12):
    encode.train(), decode.train()
    for x in train[torch.randperm(len(train))].split(64):
        loss, _, _ = bound(encode, decode, x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    encode.eval(), decode.eval()
    with torch.no_grad():
        held, price, pixel = bound(encode, decode, val, noise=False)
    if epoch % 2 == 1:
        print(f"epoch {epoch} val bound {held.item():.3f} kl {price.item():.3f} nats per pixel {pixel.item():.3f} (base rate {floor:.3f})")
