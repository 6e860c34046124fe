"""Pretrain a ConvNet on digits, then fit a new head for fashion articles on top of it."""
import gzip, os
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(17)


def read_idx(corpus, name, count, root=os.environ["TRUELOOP_DATA"]):
    with gzip.open(f"{root}/{corpus}/{name}-images-idx3-ubyte.gz") as f:
        images = np.frombuffer(f.read(16 + count * 784)[16:], np.uint8).reshape(count, 1, 28, 28)
    with gzip.open(f"{root}/{corpus}/{name}-labels-idx1-ubyte.gz") as f:
        labels = np.frombuffer(f.read(8 + count)[8:], np.uint8)
    return torch.tensor(images / 255.0, dtype=torch.float32), torch.tensor(labels.astype(np.int64))


class Net(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 12, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv2d(12, 24, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten())
        self.head = nn.Linear(24 * 49, classes)

    def forward(self, x):
        return self.head(self.features(x))


def fit(net, optimizer, x, y, epochs, batch=64, tag=""):
    for epoch in range(epochs):
        net.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(batch):
            loss = F.cross_entropy(net(x[idx]), y[idx])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(idx)
        print(f"{tag} epoch {epoch} loss {total / len(x):.3f}")


def score(net, x, y):
    net.eval()
    with torch.no_grad():
        return (net(x).argmax(1) == y).float().mean().item()


net = Net()
x_digit, y_digit = read_idx("mnist", "train", 3000)
x_digit_val, y_digit_val = read_idx("mnist", "t10k", 800)
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
fit(net, optimizer, x_digit, y_digit, epochs=4, tag="digits")
print(f"digits val acc {score(net, x_digit_val, y_digit_val):.3f}")

x_cloth, y_cloth = read_idx("fashion-mnist", "train", 2000)
x_cloth_val, y_cloth_val = read_idx("fashion-mnist", "t10k", 1000)
optimizer = torch.optim.Adam([
    {"params": net.features.parameters(), "lr": 2e-4},
    {"params": net.head.parameters(), "lr": 2e-3},
])
net.head = nn.Linear(24 * 49, 10)
fit(net, optimizer, x_cloth, y_cloth, epochs=5, tag="fashion")
print(f"fashion val acc {score(net, x_cloth_val, y_cloth_val):.3f}")
