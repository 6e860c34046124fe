"""Compressor monitoring: autoencoder on healthy readings, alarm when the error is above the 99% quantile."""
import sys
from pathlib import Path
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FOLDER = Path(sys.argv[1])
EPOCHS, BATCH, LR, CODE = 40, 64, 3e-3, 4


def readings(name):
    return np.loadtxt(FOLDER / name, delimiter=",", skiprows=1, dtype=np.float32)


class AE(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(n, 32), nn.Tanh(), nn.Linear(32, CODE))
        self.dec = nn.Sequential(nn.Linear(CODE, 32), nn.Tanh(), nn.Linear(32, n))

    def forward(self, x):
        return self.dec(self.enc(x))


@torch.no_grad()
def errors(model, x):
    model.eval()
    return ((model(x) - x) ** 2).mean(1)


torch.manual_seed(15)
normal = readings("healthy.csv")
labelled = readings("labelled_test.csv")
normal = normal[np.random.default_rng(15).permutation(len(normal))]
n_val = len(normal) // 4
mean, std = normal[n_val:].mean(0), normal[n_val:].std(0)
val, train = [torch.tensor((part - mean) / std) for part in (normal[:n_val], normal[n_val:])]
test = torch.tensor((labelled[:, :-1] - mean) / std)
fault = torch.tensor(labelled[:, -1] == 1)

model = AE(train.shape[1])
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
loader = DataLoader(TensorDataset(train), batch_size=BATCH, shuffle=True)
for epoch in range(EPOCHS):
    model.train()
    total = 0.0
    for (x,) in loader:
        loss = nn.functional.mse_loss(model(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(x)
    if epoch % 10 == 9:
        print(f"epoch {epoch:2d} train mse {total / len(train):.4f} val mse {errors(model, val).mean():.4f}")

limit = errors(model, val).quantile(0.99)
score = errors(model, test)
auc = (score[fault][:, None] > score[~fault][None, :]).float().mean().item()
print(f"limit {limit:.4f}: fault recall {(score[fault] > limit).float().mean():.3f}, "
      f"false alarms {(score[~fault] > limit).float().mean():.3f}, AUC {auc:.3f}")
