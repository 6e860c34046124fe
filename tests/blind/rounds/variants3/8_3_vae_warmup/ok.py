import copy

import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

torch.manual_seed(25)
EPOCHS, SIDE = 14, 8
grid = torch.arange(SIDE).float()


def bars(n):
    """Binary images, one horizontal and one vertical band."""
    top, left = torch.randint(SIDE - 2, (2, n, 1, 1))
    rows = (grid.view(1, -1, 1) >= top) & (grid.view(1, -1, 1) < top + 2)
    cols = (grid.view(1, 1, -1) >= left) & (grid.view(1, 1, -1) < left + 2)
    img = (rows | cols).float()
    flip = torch.rand(img.shape) < 0.02
    return torch.where(flip, 1 - img, img).flatten(1)


class BarVAE(nn.Module):
    def __init__(self, z=6):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(SIDE * SIDE, 96), nn.ReLU())
        self.mu, self.logvar = nn.Linear(96, z), nn.Linear(96, z)
        self.dec = nn.Sequential(nn.Linear(z, 96), nn.ReLU(), nn.Linear(96, SIDE * SIDE))

    def forward(self, x):
        h = self.body(x)
        mu, logvar = self.mu(h), self.logvar(h).clamp(-8, 4)
        z = torch.distributions.Normal(mu, (0.5 * logvar).exp()).rsample()
        rec = F.binary_cross_entropy_with_logits(self.dec(z), x, reduction="none").sum(1).mean()
        kl = 0.5 * (mu ** 2 + logvar.exp() - 1 - logvar).sum(1).mean()
        return rec, kl


def kl_weight(epoch):
    return min(1.0, 0.02 + epoch / (EPOCHS - 5))


train, valid, test = bars(1600), bars(400), bars(800)
vae = BarVAE()
opt = torch.optim.Adam(vae.parameters(), lr=4e-3)
best, chosen, best_state = float("inf"), None, None

for epoch in range(EPOCHS):
    vae.train()
    for x in DataLoader(train, batch_size=80, shuffle=True):
        rec, kl = vae(x)
        loss = rec + kl_weight(epoch) * kl
        opt.zero_grad()
        loss.backward()
        opt.step()
    vae.eval()
    with torch.no_grad():
        rec, kl = vae(valid)
    value = (rec + kl).item()
    if value < best:
        best, chosen, best_state = value, epoch, copy.deepcopy(vae.state_dict())
    print(f"epoch {epoch:2d}  valid rec {rec.item():.3f}  kl {kl.item():.3f}  value {value:.3f}")

vae.load_state_dict(best_state)
with torch.no_grad():
    rec, kl = vae(test)
print(f"chosen epoch {chosen}  test negative elbo {(rec + kl).item():.3f}")
