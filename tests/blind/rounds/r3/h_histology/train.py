import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
CLASSES = ["stroma", "tumour", "necrosis", "mucosa"]
EPOCHS = 10
folder = Path(sys.argv[1])


def read_shards(manifest):
    images, labels = [], []
    for name in manifest.read_text().split():
        with np.load(folder / name) as z:
            images.append(z["image"])
            labels.append(z["label"])
    image = torch.from_numpy(np.concatenate(images).astype(np.float32) / 255)[:, None]
    return image, torch.from_numpy(np.concatenate(labels).astype(np.int64))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 12, 5, stride=2, padding=2)
        self.conv2 = nn.Conv2d(12, 16, 3, stride=2, padding=1)
        self.fc = nn.Linear(16, len(CLASSES))

    def forward(self, x):
        h = F.relu(self.conv2(F.relu(self.conv(x))))
        return self.fc(h.mean((2, 3)))


@torch.no_grad()
def evaluate(model, x, y):
    model.eval()
    pred = model(x).argmax(1)
    per_class = [(pred[y == c] == c).float().mean().item() for c in range(len(CLASSES))]
    return (pred == y).float().mean().item(), per_class


train_x, train_y = read_shards(folder / "manifest.txt")
val_x, val_y = read_shards(folder / "val_manifest.txt")
mean, std = train_x.mean(), train_x.std()
train_x, val_x = (train_x - mean) / std, (val_x - mean) / std
print(f"{len(train_x)} training patches, {len(val_x)} validation patches")
loader = DataLoader(TensorDataset(train_x, train_y), batch_size=32, shuffle=True)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(1, EPOCHS + 1):
    model.train()
    total = 0.0
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    acc, _ = evaluate(model, val_x, val_y)
    if epoch % 2 == 0:
        print(f"epoch {epoch} loss {total / len(loader):.4f} val accuracy {acc:.3f}")
acc, per = evaluate(model, val_x, val_y)
print(f"val accuracy {acc:.3f}; " + ", ".join(f"{c} {p:.2f}" for c, p in zip(CLASSES, per)))
