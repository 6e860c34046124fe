"""VAE on pump telemetry (healthy periods only); anomaly score = negative ELBO."""
import numpy as np
import torch
from torch import nn

torch.manual_seed(27)
rng = np.random.default_rng(27)
SENSORS, LATENT, EPOCHS, BATCH = 30, 4, 40, 64
mixing = rng.normal(size=(3, SENSORS))
curve = rng.normal(size=(3, SENSORS)) * 0.4


def telemetry(n, fault=False):
    state = rng.normal(size=(n, 3))
    x = state @ mixing + (state ** 2 - 1) @ curve + 0.15 * rng.normal(size=(n, SENSORS))
    if fault:
        rows = np.arange(n)[:, None]
        broken = rng.permuted(np.tile(np.arange(SENSORS), (n, 1)), axis=1)[:, :3]
        x[rows, broken] += rng.choice([-1, 1], (n, 3)) * rng.uniform(0.8, 1.6, (n, 3))
    return torch.tensor(x, dtype=torch.float32)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(SENSORS, 64), nn.Tanh(), nn.Linear(64, 2 * LATENT))
        self.decoder = nn.Sequential(nn.Linear(LATENT, 64), nn.Tanh(), nn.Linear(64, SENSORS))

    def forward(self, x):
        mu, logvar = self.encoder(x).chunk(2, dim=1)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp() if self.training else mu
        return self.decoder(z), mu, logvar


def elbo_terms(x, recon, mu, logvar, noise_var=0.05):
    nll = ((x - recon) ** 2).sum(1) / (2 * noise_var)
    kl = -0.5 * (1 + logvar - mu ** 2 - logvar.exp()).sum(1)
    return nll, kl


def auc(normal, broken):
    return (broken[:, None] > normal[None, :]).float().mean().item()


train, val = telemetry(1500), telemetry(400)
test_normal, test_fault = telemetry(400), telemetry(400, fault=True)
mean, std = train.mean(0), train.std(0)
train, val, test_normal, test_fault = [(t - mean) / std for t in (train, val, test_normal, test_fault)]
model = VAE()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

for epoch in range(EPOCHS):
    model.train()
    totals = np.zeros(2)
    for idx in torch.randperm(len(train)).split(BATCH):
        x = train[idx]
        nll, kl = elbo_terms(x, *model(x))
        loss = nll.mean() + kl.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        totals += [nll.mean().item() * len(idx), kl.mean().item() * len(idx)]
    if epoch % 8 == 7:
        print(f"epoch {epoch:2d} nll {totals[0] / len(train):.2f} kl {totals[1] / len(train):.2f}")


@torch.no_grad()
def score(x):
    model.eval()
    nll, kl = elbo_terms(x, *model(x))
    return nll + kl


limit = score(val).quantile(0.95)
print(f"AUC {auc(score(test_normal), score(test_fault)):.3f} recall {(score(test_fault) > limit).float().mean():.3f} "
      f"false alarms {(score(test_normal) > limit).float().mean():.3f}")
