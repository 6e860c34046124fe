"""Denoising autoencoder on vibration spectra of healthy bearings; score = reconstruction error."""
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(21)
rng = np.random.default_rng(21)
BINS, NOISE_STD, EPOCHS, BATCH = 48, 0.3, 32, 64
grid = np.arange(BINS)


def spectrum(n, faulty=False):
    rpm = rng.uniform(6, 14, n)[:, None]
    load = rng.uniform(0.6, 1.4, n)[:, None]
    out = np.zeros((n, BINS))
    for harmonic, gain in ((1, 1.0), (2, 0.6), (3, 0.35)):
        out += gain * load * np.exp(-0.5 * ((grid - harmonic * rpm) / 1.2) ** 2)
    if faulty:
        out += 0.3 * load * np.exp(-0.5 * ((grid - 1.5 * rpm) / 1.2) ** 2)
    return out + rng.normal(0, 0.04, out.shape)


def tensor(a):
    return torch.tensor(a, dtype=torch.float32)


train, val = tensor(spectrum(1200)), tensor(spectrum(300))
test = tensor(np.concatenate([spectrum(300), spectrum(300, faulty=True)]))
is_fault = np.r_[np.zeros(300), np.ones(300)]
center, spread = train.mean(0), train.std()
train, val, test = [(part - center) / spread for part in (train, val, test)]


class NoisySpectra(Dataset):
    """pairs (noisy input, clean target)"""

    def __init__(self, spectra, std):
        self.spectra, self.std = spectra, std

    def __len__(self):
        return len(self.spectra)

    def __getitem__(self, i):
        noisy = self.spectra[i]
        noisy += self.std * torch.randn(noisy.shape)
        return noisy, self.spectra[i]


class AutoEncoder(nn.Module):
    def __init__(self, n, code=6):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(n, 64), nn.ReLU(), nn.Linear(64, code))
        self.decode = nn.Sequential(nn.Linear(code, 64), nn.ReLU(), nn.Linear(64, n))

    def forward(self, x):
        return self.decode(self.encode(x))


def auc(score, label):
    rank = np.argsort(np.argsort(score)) + 1
    pos = label == 1
    return (rank[pos].sum() - pos.sum() * (pos.sum() + 1) / 2) / (pos.sum() * (~pos).sum())


model = AutoEncoder(BINS)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
loader = DataLoader(NoisySpectra(train, NOISE_STD), batch_size=BATCH, shuffle=True)
for epoch in range(EPOCHS):
    model.train()
    total = 0.0
    for noisy, clean in loader:
        loss = ((model(noisy) - clean) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(clean)
    if epoch % 8 == 7:
        model.eval()
        with torch.no_grad():
            val_mse = ((model(val) - val) ** 2).mean().item()
        print(f"epoch {epoch:2d} train {total / len(train):.4f} val {val_mse:.4f}")

model.eval()
with torch.no_grad():
    score = ((model(test) - test) ** 2).mean(1).numpy()
    limit = np.quantile(((model(val) - val) ** 2).mean(1).numpy(), 0.95)
flagged = score > limit
print(f"fault AUC {auc(score, is_fault):.3f}  recall {flagged[is_fault == 1].mean():.3f}  "
      f"false alarms {flagged[is_fault == 0].mean():.3f}")
