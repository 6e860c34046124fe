"""Pretrain on digits, save, then fine-tune on clothing: head first, then everything."""
import gzip
import os
import tempfile
import numpy as np
import torch
from torch import nn

ROOT = os.environ["TRUELOOP_DATA"] + "/"


def load(name, n):
    with gzip.open(f"{ROOT}{name}/t10k-images-idx3-ubyte.gz") as f:
        x = np.frombuffer(f.read(16 + n * 784), np.uint8, offset=16).reshape(n, 14, 2, 14, 2).mean((2, 4)) / 255
    with gzip.open(f"{ROOT}{name}/t10k-labels-idx1-ubyte.gz") as f:
        y = np.frombuffer(f.read(8 + n), np.uint8, offset=8)
    x = torch.tensor(x.reshape(n, 196), dtype=torch.float32)
    return (x - x.mean()) / x.std(), torch.tensor(y, dtype=torch.long)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(196, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU())
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        return self.head(self.body(x))


def trainable(model):
    return [p for p in model.parameters() if p.requires_grad]


def run_epochs(model, optimizer, x, y, epochs, name):
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x[idx]), y[idx])
            loss.backward()
            optimizer.step()
            total += loss.item() * len(idx)
        print(f"{name} epoch {epoch} loss {total / len(x):.4f}")


def accuracy(model, x, y):
    model.eval()
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()


torch.manual_seed(14)
x, y = load("mnist", 3000)
model = Net()
run_epochs(model, torch.optim.Adam(model.parameters(), lr=3e-3), x, y, 4, "pretrain")
path = os.path.join(tempfile.mkdtemp(), "digits.pt")
torch.save(model.state_dict(), path)

x, y = load("fashion-mnist", 3600)
x_train, y_train, x_valid, y_valid = x[:3000], y[:3000], x[3000:], y[3000:]
model = Net()
model.load_state_dict(torch.load(path))
model.head.reset_parameters()
for p in model.body.parameters():
    p.requires_grad = False
optimizer = torch.optim.Adam(trainable(model), lr=3e-3)
run_epochs(model, optimizer, x_train, y_train, 3, "head only")
print(f"head only valid {accuracy(model, x_valid, y_valid):.3f}")
for p in model.body.parameters():
    p.requires_grad = True
optimizer = torch.optim.Adam(trainable(model), lr=2e-3)
run_epochs(model, optimizer, x_train, y_train, 6, "all layers")
print(f"fine-tuned valid accuracy {accuracy(model, x_valid, y_valid):.3f}")
