import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED, EPOCHS = 0, 25
torch.manual_seed(SEED)
folder = Path(sys.argv[1])


def load(name):
    z = np.load(folder / name)
    return torch.from_numpy(z["patch"].astype(np.float32) / 255), torch.from_numpy(z["label"].astype(np.int64))


class PatchNet(nn.Module):
    def __init__(self, d, hidden=96):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(d, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.head = nn.Linear(hidden, 3)

    def forward(self, x):
        return self.head(self.body(x.flatten(1)))


@torch.no_grad()
def evaluate(model, x, y):
    model.eval()
    return (model(x).argmax(1) == y).float().mean().item()


train_x, train_y = load("train.npz")
val_x, val_y = load("val.npz")
hosp_x, hosp_y = load("other_hospital.npz")
mean, std = train_x.mean(), train_x.std()
train_x, val_x, hosp_x = ((t - mean) / std for t in (train_x, val_x, hosp_x))
print(f"train {len(train_x)} val {len(val_x)} other hospital {len(hosp_x)}")
loader = DataLoader(TensorDataset(train_x, train_y), batch_size=50, shuffle=True)
model = PatchNet(train_x[0].numel())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
best, best_state = -1.0, None
for epoch in range(1, EPOCHS + 1):
    model.train()
    total = 0.0
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    acc = evaluate(model, val_x, val_y)
    if acc > best:
        best, best_state = acc, {k: v.clone() for k, v in model.state_dict().items()}
    if epoch % 5 == 0:
        print(f"epoch {epoch} loss {total / len(loader):.4f} val accuracy {acc:.3f}")
model.load_state_dict(best_state)
print(f"validation accuracy {best:.3f}, other hospital {evaluate(model, hosp_x, hosp_y):.3f}")
