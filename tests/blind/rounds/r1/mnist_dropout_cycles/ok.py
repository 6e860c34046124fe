"""MNIST ConvNet trained in short cycles, with a validation pass after each cycle."""
import gzip, os
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F


def read_idx(name, count, folder=os.environ["TRUELOOP_DATA"] + "/mnist"):
    with gzip.open(f"{folder}/{name}-images-idx3-ubyte.gz") as f:
        images = np.frombuffer(f.read(16 + count * 784)[16:], np.uint8).reshape(count, 1, 28, 28)
    with gzip.open(f"{folder}/{name}-labels-idx1-ubyte.gz") as f:
        labels = np.frombuffer(f.read(8 + count)[8:], np.uint8)
    return torch.tensor(images / 255.0, dtype=torch.float32), torch.tensor(labels.astype(np.int64))


class DigitNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 12, 5, stride=2)
        self.bn1 = nn.BatchNorm2d(12)
        self.conv2 = nn.Conv2d(12, 24, 3, stride=2)
        self.bn2 = nn.BatchNorm2d(24)
        self.fc1 = nn.Linear(24 * 25, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        x = F.dropout(x.flatten(1), 0.5, training=self.training)
        x = F.relu(self.fc1(x))
        x = F.dropout(x, 0.5, training=self.training)
        return self.fc2(x)


def batches(x, y, size, generator):
    for idx in torch.randperm(len(x), generator=generator).split(size):
        yield x[idx], y[idx]


def train_cycle(model, optimizer, x, y, generator, size=64):
    model.train()
    losses = []
    for xb, yb in batches(x, y, size, generator):
        loss = F.cross_entropy(model(xb), yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return float(np.mean(losses))


def validate(model, x, y):
    model.eval()
    with torch.no_grad():
        logits = torch.cat([model(part) for part in x.split(250)])
    loss = F.cross_entropy(logits, y).item()
    return loss, (logits.argmax(1) == y).float().mean().item()


def main(cycles=7, lr=2e-3, seed=12):
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    x_train, y_train = read_idx("train", 2000)
    x_val, y_val = read_idx("t10k", 1500)
    model = DigitNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for cycle in range(cycles):
        train_loss = train_cycle(model, optimizer, x_train, y_train, generator)
        val_loss, acc = validate(model, x_val, y_val)
        print(f"cycle {cycle} train {train_loss:.3f} val {val_loss:.3f} acc {acc:.4f}")


if __name__ == "__main__":
    main()
