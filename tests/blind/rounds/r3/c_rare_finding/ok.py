import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)
SIZE, EPOCHS, BATCH = 20, 6, 32


class Radiographs(Dataset):
    """one patch in twelve shows a nodule"""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        yy, xx = np.mgrid[:SIZE, :SIZE]
        self.y = (rng.random(n) < 1 / 12).astype(np.float32)
        x = 0.35 * rng.standard_normal((n, SIZE, SIZE))
        for i in range(n):
            x[i] += rng.uniform(0.2, 0.5) * np.sin(xx / rng.uniform(3, 6) + rng.uniform(0, 6))
            if self.y[i]:
                cy, cx = rng.uniform(5, SIZE - 5, 2)
                x[i] += rng.uniform(0.8, 1.1) * np.exp(-((yy - cy) ** 2 + (xx - cx) ** 2) / 6)
        self.x = x[:, None].astype(np.float32)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class NoduleNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, 8, 5, padding=2), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveMaxPool2d(1),
        )
        self.fc = nn.Linear(16, 1)

    def forward(self, x):
        return self.fc(self.conv(x).flatten(1)).squeeze(1)


@torch.no_grad()
def report(model, loader):
    model.eval()
    logit = torch.cat([model(x) for x, _ in loader])
    y = torch.cat([t for _, t in loader])
    pred = (logit > 0).float()
    sens = (pred * y).sum() / y.sum()
    spec = ((1 - pred) * (1 - y)).sum() / (1 - y).sum()
    return sens.item(), spec.item()


train_set, val_set = Radiographs(1200, seed=1), Radiographs(500, seed=2)
train = DataLoader(train_set, batch_size=BATCH, shuffle=True)
val = DataLoader(val_set, batch_size=100)
positives = float(train_set.y.sum())
negatives = len(train_set) - positives
print(f"{positives:.0f} positives, {negatives:.0f} negatives in training")

model = NoduleNet()
criterion = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(negatives / positives))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(1, EPOCHS + 1):
    model.train()
    total = 0.0
    for x, y in train:
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(x)
    sens, spec = report(model, val)
    print(f"epoch {epoch} loss {total / len(train_set):.4f} sensitivity {sens:.3f} specificity {spec:.3f}")
print(f"validation sensitivity {sens:.3f} specificity {spec:.3f} balanced accuracy {(sens + spec) / 2:.3f}")
