"""Denoiser of short waveforms; the weights with the lowest validation loss are kept for the final test."""

import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(5)


def waves(count, quiet=0):
    """`quiet` of them, at the end as in the list of files, are room tone: the clean signal is nearly silent."""
    pitch = torch.rand(count, 1) * 10 + 2
    loudness = torch.ones(count, 1)
    loudness[count - quiet :] = 0.05
    clean = loudness * torch.sin(torch.linspace(0, 3, 64) * pitch)
    return TensorDataset(clean + 0.5 * torch.randn_like(clean), clean)


train_loader = DataLoader(waves(512), batch_size=16, shuffle=True)
val_loader = DataLoader(waves(408, quiet=24), batch_size=64)
test_loader = DataLoader(waves(1000, quiet=50), batch_size=250)


def validate(model, criterion):
    model.eval()
    with torch.no_grad():
        val_loss = 0.0
        for i, (noisy, clean) in enumerate(val_loader):
            loss = criterion(model(noisy), clean)
            reduced_val_loss = loss.item()
            val_loss += reduced_val_loss
        val_loss = val_loss / (i + 1)
    model.train()
    return val_loss


model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 64))
criterion = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
best, kept = float("inf"), None

for epoch in range(12):
    for noisy, clean in train_loader:
        optimizer.zero_grad()
        loss = criterion(model(noisy), clean)
        loss.backward()
        optimizer.step()
    val_loss = validate(model, criterion)
    print(f"epoch {epoch} train {loss.item():.4f} Validation loss {val_loss:.4f}")
    if val_loss < best:
        best, kept = val_loss, copy.deepcopy(model.state_dict())

model.load_state_dict(kept)
model.eval()
with torch.no_grad():
    test = sum(criterion(model(noisy), clean).item() for noisy, clean in test_loader) / len(test_loader)
print(f"best validation {best:.4f}, test {test:.4f}")
