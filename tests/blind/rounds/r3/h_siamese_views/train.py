import gzip, os
import json
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(3)
aug = json.load(open(f"{sys.argv[1]}/augment.json"))
ROOT = os.environ["TRUELOOP_DATA"] + "/mnist"
N, STEPS, BATCH, TAU = 2500, 220, 96, 0.2


def load(split, n):
    with gzip.open(f"{ROOT}/{split}-images-idx3-ubyte.gz") as f:
        x = np.frombuffer(f.read(16 + 784 * n)[16:], np.uint8).reshape(n, 1, 28, 28).astype(np.float32)
    with gzip.open(f"{ROOT}/{split}-labels-idx1-ubyte.gz") as f:
        y = np.frombuffer(f.read(8 + n)[8:], np.uint8).astype(np.int64)
    return F.avg_pool2d(torch.from_numpy(x) / 255, 2), torch.from_numpy(y)


def view(x):
    n, s = len(x), aug["max_shift"]
    theta = torch.eye(2, 3).repeat(n, 1, 1)
    theta[:, :, 2] = (torch.rand(n, 2) * 2 - 1) * s / 7
    theta[:, 0, 1] = (torch.rand(n) * 2 - 1) * aug["shear"]
    x = F.grid_sample(x, F.affine_grid(theta, x.shape, align_corners=False), align_corners=False)
    return x + aug["noise_std"] * torch.randn_like(x)


class Siamese(nn.Module):
    def __init__(self, feat=32):
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(196, 128), nn.ReLU(), nn.Linear(128, feat), nn.ReLU())
        self.project = nn.Sequential(nn.Linear(feat, 64), nn.ReLU(), nn.Linear(64, 32))

    def forward(self, x):
        return F.normalize(self.project(self.encoder(x)), dim=1)


def info_nce(a, b):
    logits = a @ b.T / TAU
    target = torch.arange(len(a))
    return 0.5 * (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target))


def probe(model, train, test):
    model.eval()
    with torch.no_grad():
        a, b = model.encoder(train[0]), model.encoder(test[0])
    mu, sd = a.mean(0), a.std(0) + 1e-5
    a, b = (a - mu) / sd, (b - mu) / sd
    head = nn.Linear(a.shape[1], 10)
    optimizer = torch.optim.Adam(head.parameters(), lr=2e-2, weight_decay=1e-4)
    for _ in range(120):
        i = torch.randint(0, len(a), (256,))
        loss = F.cross_entropy(head(a[i]), train[1][i])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        return (head(b).argmax(1) == test[1]).float().mean().item()


train, test = load("train", N), load("t10k", 1000)
print(f"augmentation {aug}")
model = Siamese()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, weight_decay=1e-5)
model.train()
running = 0.0
for step in range(1, STEPS + 1):
    x = train[0][torch.randint(0, N, (BATCH,))]
    loss = info_nce(model(view(x)), model(view(x)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    running += loss.item()
    if step % 44 == 0:
        print(f"step {step} loss {running / 44:.3f}")
        running = 0.0
print(f"linear probe accuracy {probe(model, train, test):.3f}")
