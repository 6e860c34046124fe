import gzip, os

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

ROOT = os.environ["TRUELOOP_DATA"] + "/fashion-mnist"
torch.manual_seed(6)


def load(split, n):
    with gzip.open(f"{ROOT}/{split}-images-idx3-ubyte.gz") as f:
        x = np.frombuffer(f.read(16 + 784 * n)[16:], np.uint8).reshape(n, 1, 28, 28).astype(np.float32)
    with gzip.open(f"{ROOT}/{split}-labels-idx1-ubyte.gz") as f:
        y = np.frombuffer(f.read(8 + n)[8:], np.uint8).astype(np.int64)
    return F.avg_pool2d(torch.from_numpy(x) / 255, 2), torch.from_numpy(y)


class Net(nn.Module):
    def __init__(self, outputs):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(),
        )
        self.head = nn.Linear(32 * 16, outputs)

    def forward(self, x):
        return self.head(self.encoder(x))


def rotate_batch(x):
    k = torch.randint(0, 4, (len(x),))
    out = torch.stack([torch.rot90(img, int(r), (1, 2)) for img, r in zip(x, k)])
    return out, k


def fit(model, optimizer, x, y, steps, batch, make=None):
    model.train()
    running = 0.0
    for step in range(1, steps + 1):
        idx = torch.randint(0, len(x), (batch,))
        xb, yb = make(x[idx]) if make else (x[idx], y[idx])
        loss = F.cross_entropy(model(xb), yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running += loss.item()
        if step % 50 == 0:
            print(f"  step {step} loss {running / 50:.4f}")
            running = 0.0


@torch.no_grad()
def accuracy(model, x, y):
    model.eval()
    return (model(x).argmax(1) == y).float().mean().item()


train_x, train_y = load("train", 2500)
test_x, test_y = load("t10k", 1000)
mean, std = train_x.mean(), train_x.std()
train_x, test_x = (train_x - mean) / std, (test_x - mean) / std

print("pre-training: rotation prediction")
model = Net(outputs=4)
fit(model, torch.optim.Adam(model.parameters(), lr=2e-3), train_x, None, 200, 48, make=rotate_batch)
rx, rk = rotate_batch(test_x)
print(f"rotation accuracy {accuracy(model, rx, rk):.3f}")

print("fine-tuning: ten classes, 500 labels")
few_x, few_y = train_x[:500], train_y[:500]
model.head = nn.Linear(32 * 16, 10)
optimizer = torch.optim.Adam([
    {"params": model.encoder.parameters(), "lr": 2e-4},
    {"params": model.head.parameters(), "lr": 2e-3},
])
fit(model, optimizer, few_x, few_y, 200, 48)
print(f"test accuracy after fine-tuning {accuracy(model, test_x, test_y):.3f}")
