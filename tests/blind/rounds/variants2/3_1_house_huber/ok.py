import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

rng = np.random.default_rng(4)
torch.manual_seed(4)


class Houses(Dataset):
    def __init__(self, n, stats=None):
        area = rng.uniform(40, 220, n)
        rooms = np.clip(np.round(area / 30 + rng.normal(0, 1, n)), 1, 9)
        age = rng.uniform(0, 80, n)
        distance = rng.exponential(6, n)
        table = np.stack([area, rooms, age, distance], 1)
        price = 2.2 * area + 9 * rooms - 0.9 * age - 40 * np.log1p(distance) + rng.normal(0, 12, n)
        self.stats = stats or (table.mean(0), table.std(0), price.mean(), price.std())
        mx, sx, my, sy = self.stats
        self.rows = torch.tensor((table - mx) / sx, dtype=torch.float32)
        self.price = torch.tensor((price - my) / sy, dtype=torch.float32)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i], self.price[i]


def huber(prediction, target, delta=0.5):
    gap = (prediction - target).abs()
    return torch.where(gap < delta, 0.5 * gap ** 2, delta * (gap - 0.5 * delta)).mean()


train_set = Houses(1200)
val_set = Houses(400, train_set.stats)
train_loader = DataLoader(train_set, batch_size=32, shuffle=True)
net = nn.Sequential(nn.Linear(4, 32), nn.SiLU(), nn.Linear(32, 32), nn.SiLU(), nn.Linear(32, 1))
opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=8)

for epoch in range(8):
    net.train()
    seen, total = 0, 0.0
    for rows, price in train_loader:
        opt.zero_grad(set_to_none=True)
        loss = huber(net(rows).squeeze(-1), price)
        loss.backward()
        opt.step()
        total += loss.item() * len(rows)
        seen += len(rows)
    sched.step()
    net.eval()
    with torch.no_grad():
        guess = net(val_set.rows).flatten()
    r2 = 1 - (guess - val_set.price).pow(2).sum() / (val_set.price - val_set.price.mean()).pow(2).sum()
    print(f"epoch {epoch} train {total / seen:.4f} val_r2 {r2.item():.3f}")
