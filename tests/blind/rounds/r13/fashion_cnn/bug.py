"""Fashion-MNIST classifier, small CNN, SGD with step decay."""
import gzip
import os
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

ROOT = os.path.join(os.environ["TRUELOOP_DATA"], "fashion-mnist")
EPOCHS = 4
BATCH = 64
torch.manual_seed(7)


def idx_images(name, n):
    with gzip.open(os.path.join(ROOT, name)) as f:
        raw = f.read(16 + n * 784)
    return np.frombuffer(raw, np.uint8, offset=16).reshape(n, 1, 28, 28)


def idx_labels(name, n):
    with gzip.open(os.path.join(ROOT, name)) as f:
        raw = f.read(8 + n)
    return np.frombuffer(raw, np.uint8, offset=8).astype(np.int64)


def load(split, n):
    x = torch.from_numpy(idx_images(f"{split}-images-idx3-ubyte.gz", n).copy()).float() / 255
    x = (x - 0.286) / 0.353
    return TensorDataset(x, torch.from_numpy(idx_labels(f"{split}-labels-idx1-ubyte.gz", n)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, 8, 3, padding=1)
        self.c2 = nn.Conv2d(8, 16, 3, padding=1)
        self.drop = nn.Dropout(0.2)
        self.fc = nn.Linear(16 * 7 * 7, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.c1(x)), 2)
        x = F.max_pool2d(F.relu(self.c2(x)), 2)
        return self.fc(self.drop(x.flatten(1)))


def evaluate(model, loader):
    model.eval()
    hit = tot = 0
    with torch.no_grad():
        for x, y in loader:
            hit += (model(x).argmax(1) == y).sum().item()
            tot += len(y)
    return hit / tot


def main():
    train = DataLoader(load("train", 3000), batch_size=BATCH, shuffle=True, drop_last=True)
    test = DataLoader(load("t10k", 1000), batch_size=500)
    model = Net()
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    sched = torch.optim.lr_scheduler.StepLR(opt, step_size=3, gamma=0.1)
    for epoch in range(EPOCHS):
        model.train()
        running = 0.0
        for x, y in train:
            opt.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
            running += loss.item()
            sched.step()
        print(f"epoch {epoch} loss {running / len(train):.4f} test acc {evaluate(model, test):.4f}")
    print("final test accuracy", evaluate(model, test))


if __name__ == "__main__":
    main()
