from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


@dataclass
class Config:
    seed: int = 0
    epochs: int = 24
    batch_size: int = 32
    lr: float = 5e-3
    decay_every: int = 8
    decay_by: float = 0.3
    samples: int = 900


cfg = Config()
torch.manual_seed(cfg.seed)


def effectiveness(x):
    """epsilon-NTU relation of a counter-flow exchanger plus fouling"""
    ntu, ratio, foul, temp = x.T
    ntu = ntu / (1 + foul)
    e = torch.exp(-ntu * (1 - ratio))
    eps = (1 - e) / (1 - ratio * e)
    return eps * temp


def sample_inputs(n):
    low = torch.tensor([0.2, 0.05, 0.0, 20.0])
    high = torch.tensor([5.0, 0.95, 1.0, 90.0])
    return low + (high - low) * torch.rand(n, 4)


class Surrogate(nn.Module):
    def __init__(self, x, y):
        super().__init__()
        self.register_buffer("x_mean", x.mean(0))
        self.register_buffer("x_std", x.std(0))
        self.register_buffer("y_mean", y.mean())
        self.register_buffer("y_std", y.std())
        self.net = nn.Sequential(nn.Linear(4, 48), nn.SiLU(), nn.Linear(48, 48), nn.SiLU(), nn.Linear(48, 1))

    def scaled(self, x):
        return self.net((x - self.x_mean) / self.x_std).squeeze(1)

    def forward(self, x):
        return self.scaled(x) * self.y_std + self.y_mean

    def loss(self, x, y):
        return (self.scaled(x) - (y - self.y_mean) / self.y_std).pow(2).mean()


def r2(model, subset):
    x, y = subset.dataset.tensors
    x, y = x[subset.indices], y[subset.indices]
    model.eval()
    with torch.no_grad():
        res = (model(x) - y).pow(2).sum() / (y - y.mean()).pow(2).sum()
    return 1 - res.item()


inputs = sample_inputs(cfg.samples)
data = TensorDataset(inputs, effectiveness(inputs))
train_set, val_set = random_split(data, [0.8, 0.2], generator=torch.Generator().manual_seed(cfg.seed))
loader = DataLoader(train_set, batch_size=cfg.batch_size, shuffle=True)
train_x, train_y = inputs[train_set.indices], data.tensors[1][train_set.indices]
model = Surrogate(train_x, train_y)
optimizer = torch.optim.Adam(model.parameters(), lr=cfg.lr)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=cfg.decay_every, gamma=cfg.decay_by)

for epoch in range(1, cfg.epochs + 1):
    model.train()
    total = 0.0
    for x, y in loader:
        loss = model.loss(x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    scheduler.step()
    if epoch % 4 == 0:
        print(f"epoch {epoch} loss {total / len(loader):.5f} val r2 {r2(model, val_set):.4f}")
print(f"final validation R2 {r2(model, val_set):.4f}, unexplained {1 - r2(model, val_set):.5f}")
