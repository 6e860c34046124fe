import gzip, os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(15)
DATA = os.environ["TRUELOOP_DATA"] + "/fashion-mnist/"


def images(part, n):
    raw = gzip.open(DATA + part + "-images-idx3-ubyte.gz").read(16 + n * 784)
    arr = np.frombuffer(raw, np.uint8, offset=16).reshape(n, 1, 28, 28).astype(np.float32) / 255
    return F.avg_pool2d(torch.from_numpy(arr), 2).flatten(1) - 0.286


def labels(part, n):
    raw = gzip.open(DATA + part + "-labels-idx1-ubyte.gz").read(8 + n)
    return torch.from_numpy(np.frombuffer(raw, np.uint8, offset=8).astype(np.int64))


class ProxyEmbedder(nn.Module):
    def __init__(self, n_classes=10, dim=24, scale=12.0):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(196, 128), nn.ReLU(), nn.Linear(128, dim))
        self.proxies = nn.Parameter(torch.randn(n_classes, dim))
        self.scale = scale

    def embed(self, x):
        return F.normalize(self.encoder(x), dim=1)

    def loss(self, x, y):
        return F.cross_entropy(self.scale * self.embed(x) @ F.normalize(self.proxies, dim=1).t(), y)


@torch.no_grad()
def recall_at_1(model, x, y):
    model.eval()
    z = model.embed(x)
    sim = z @ z.t()
    sim.fill_diagonal_(-2.0)
    return (y[sim.argmax(1)] == y).float().mean().item()


train_x, train_y = images("train", 4000), labels("train", 4000)
test_x, test_y = images("t10k", 1000), labels("t10k", 1000)
model = ProxyEmbedder()
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(4):
    model.train()
    running = 0.0
    for idx in torch.randperm(len(train_x)).split(64):
        loss = model.loss(train_x[idx], train_y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        running += loss.item() * len(idx)
    print(f"epoch {epoch} proxy loss {running / len(train_x):.3f} test recall@1 {recall_at_1(model, test_x, test_y):.3f}")
