"""VAE on normal pump telemetry; reconstruction error as anomaly score."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CONFIG = {"seed": 8, "n_sensors": 24, "latent": 5, "hidden": 64, "beta": 0.05,
          "lr": 2e-3, "epochs": 25, "batch_size": 64, "n_train": 2000, "n_eval": 500}
torch.manual_seed(CONFIG["seed"])
D = CONFIG["n_sensors"]

# telemetry: few physical drivers behind many sensors
W1, W2 = torch.randn(4, 16), torch.randn(16, D) / 4


def telemetry(n):
    drivers = torch.randn(n, 4)
    return torch.tanh(drivers @ W1 * 0.6) @ W2 + 0.1 * torch.randn(n, D)


train_x, val_x = telemetry(CONFIG["n_train"]), telemetry(CONFIG["n_eval"])
normal_x = telemetry(CONFIG["n_eval"])
broken_x = telemetry(CONFIG["n_eval"])
for r in range(len(broken_x)):
    cols = torch.randperm(D)[:6]
    broken_x[r, cols] = normal_x[torch.randint(len(normal_x), (1,))[0], cols]
mu0, sd0 = train_x.mean(0), train_x.std(0)
train_x, val_x, normal_x, broken_x = ((z - mu0) / sd0 for z in (train_x, val_x, normal_x, broken_x))


class VAE(nn.Module):
    def __init__(self, d, h, z):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(d, h), nn.ReLU())
        self.to_mu, self.to_logvar = nn.Linear(h, z), nn.Linear(h, z)
        self.dec = nn.Sequential(nn.Linear(z, h), nn.ReLU(), nn.Linear(h, d))

    def forward(self, x):
        h = self.enc(x)
        mu, logvar = self.to_mu(h), self.to_logvar(h)
        z = mu + torch.exp(0.5 * logvar) * torch.randn_like(mu) if self.training else mu
        return self.dec(z), mu, logvar


def elbo_terms(x, recon, mu, logvar):
    rec = ((x - recon) ** 2).sum(1).mean()
    kl = -0.5 * (1 + logvar - mu ** 2 - logvar.exp()).sum()
    return rec, kl


def auroc(neg, pos):
    s = torch.cat([neg, pos])
    rank = s.argsort().argsort().double() + 1
    n0, n1 = len(neg), len(pos)
    return ((rank[n0:].sum() - n1 * (n1 + 1) / 2) / (n0 * n1)).item()


@torch.no_grad()
def score(model, x):
    model.eval()
    return ((x - model(x)[0]) ** 2).mean(1)


model = VAE(D, CONFIG["hidden"], CONFIG["latent"])
opt = torch.optim.Adam(model.parameters(), lr=CONFIG["lr"])
loader = DataLoader(TensorDataset(train_x), batch_size=CONFIG["batch_size"], shuffle=True, drop_last=True)

for epoch in range(1, CONFIG["epochs"] + 1):
    model.train()
    rec_sum = kl_sum = 0.0
    for (x,) in loader:
        recon, mu, logvar = model(x)
        rec, kl = elbo_terms(x, recon, mu, logvar)
        loss = rec + CONFIG["beta"] * kl
        opt.zero_grad()
        loss.backward()
        opt.step()
        rec_sum += rec.item()
        kl_sum += kl.item()
    if epoch % 5 == 0:
        print(f"epoch {epoch:2d} rec {rec_sum / len(loader):.3f} kl {kl_sum / len(loader):.3f} "
              f"val mse {score(model, val_x).mean():.4f}")

threshold = score(model, val_x).quantile(0.95)
s_ok, s_bad = score(model, normal_x), score(model, broken_x)
print(f"test AUROC {auroc(s_ok, s_bad):.3f}  detected at 5% false alarms {(s_bad > threshold).float().mean():.3f}")
torch.save({"model": model.state_dict(), "mu": mu0, "sd": sd0, "threshold": threshold}, "/tmp/vae_pump.pt")
