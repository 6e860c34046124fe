import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

SEED = 0
torch.manual_seed(SEED)
np.random.seed(SEED)
PATIENTS, SLICES, DIM, EPOCHS = 60, 12, 48, 15


def cohort(n_patients, seed):
    """features of slices: personal anatomy (strong), disease (weak), scanner noise"""
    rng = np.random.default_rng(seed)
    direction = np.random.default_rng(1234).standard_normal(DIM)
    direction /= np.linalg.norm(direction)
    label = rng.integers(0, 2, n_patients)
    anatomy = 1.2 * rng.standard_normal((n_patients, DIM))
    x = anatomy[:, None] + (label * 2 - 1)[:, None, None] * 1.3 * direction
    x = x + 0.5 * rng.standard_normal((n_patients, SLICES, DIM))
    pid = np.repeat(np.arange(n_patients), SLICES)
    return (
        torch.from_numpy(x.reshape(-1, DIM).astype(np.float32)),
        torch.from_numpy(np.repeat(label, SLICES)),
        torch.from_numpy(pid),
    )


def split(pid, fraction):
    g = torch.Generator().manual_seed(SEED)
    patients = pid.unique()
    order = patients[torch.randperm(len(patients), generator=g)]
    held = torch.isin(pid, order[: int(fraction * len(patients))])
    return (~held).nonzero().squeeze(1), held.nonzero().squeeze(1)


@torch.no_grad()
def accuracy(model, x, y):
    model.eval()
    return (model(x).argmax(1) == y).float().mean().item()


x, y, pid = cohort(PATIENTS, seed=1)
train_idx, val_idx = split(pid, 0.3)
mean, std = x[train_idx].mean(0), x[train_idx].std(0)
x = (x - mean) / std
loader = DataLoader(Subset(TensorDataset(x, y), train_idx.tolist()), batch_size=32, shuffle=True)
print(f"{len(train_idx)} training slices, {len(val_idx)} validation slices")

model = nn.Sequential(nn.Linear(DIM, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-3)
best, best_state = 0.0, None
for epoch in range(1, EPOCHS + 1):
    model.train()
    total = 0.0
    for xb, yb in loader:
        loss = F.cross_entropy(model(xb), yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    val = accuracy(model, x[val_idx], y[val_idx])
    if val > best:
        best, best_state = val, {k: v.clone() for k, v in model.state_dict().items()}
    if epoch % 3 == 0:
        print(f"epoch {epoch} loss {total / len(loader):.4f} val accuracy {val:.3f}")
model.load_state_dict(best_state)
new_x, new_y, _ = cohort(200, seed=77)
print(f"best validation accuracy {best:.3f}; accuracy in 200 new patients {accuracy(model, (new_x - mean) / std, new_y):.3f}")
