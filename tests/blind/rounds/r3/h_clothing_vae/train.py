import gzip, os
import json
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

cfg = json.load(open(sys.argv[1] + "/config.json"))
torch.manual_seed(cfg["seed"])
DATA = os.environ["TRUELOOP_DATA"] + "/fashion-mnist"


def load(split, n):
    with gzip.open(f"{DATA}/{split}-images-idx3-ubyte.gz") as f:
        x = np.frombuffer(f.read(16 + 784 * n)[16:], np.uint8).reshape(n, 1, 28, 28).astype(np.float32)
    return F.avg_pool2d(torch.from_numpy(x) / 255, 2).flatten(1)


class BetaVAE(nn.Module):
    def __init__(self, d, hidden, latent):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(d, hidden), nn.ReLU(), nn.Linear(hidden, 2 * latent))
        self.decoder = nn.Sequential(nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, d))

    def encode(self, x):
        return self.encoder(x).chunk(2, 1)

    def loss(self, x, kl_weight):
        mu, logvar = self.encode(x)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        recon = F.binary_cross_entropy_with_logits(self.decoder(z), x, reduction="none").sum(1).mean()
        kl = 0.5 * (mu ** 2 + logvar.exp() - 1 - logvar).sum(1).mean()
        return recon + kl_weight * kl, recon, kl


@torch.no_grad()
def test_mse(model, x):
    model.eval()
    out = torch.sigmoid(model.decoder(model.encode(x)[0]))
    model.train()
    return (out - x).pow(2).mean().item()


train_x, test_x = load("train", 4000), load("t10k", 800)
loader = DataLoader(TensorDataset(train_x), batch_size=cfg["batch_size"], shuffle=True)
model = BetaVAE(train_x.shape[1], cfg["hidden"], cfg["latent"])
optimizer = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
model.train()
for epoch in range(1, cfg["epochs"] + 1):
    sums = np.zeros(2)
    for (x,) in loader:
        loss, recon, kl = model.loss(x, cfg["kl_weight"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        sums += [recon.item(), kl.item()]
    r, k = sums / len(loader)
    print(f"epoch {epoch} recon {r:.2f} kl {k:.3f} test mse {test_mse(model, test_x):.4f}")
base = (train_x.mean(0) - test_x).pow(2).mean().item()
print(f"test mse {test_mse(model, test_x):.4f} (mean image {base:.4f})")
