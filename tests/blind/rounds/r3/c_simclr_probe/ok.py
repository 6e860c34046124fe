import gzip, os

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

ROOT = os.environ["TRUELOOP_DATA"] + "/mnist"
torch.manual_seed(2)
N, STEPS, BATCH, TAU = 3000, 250, 96, 0.2


def load(split, n):
    with gzip.open(f"{ROOT}/{split}-images-idx3-ubyte.gz") as f:
        x = np.frombuffer(f.read(16 + 784 * n)[16:], np.uint8).reshape(n, 1, 28, 28).astype(np.float32)
    with gzip.open(f"{ROOT}/{split}-labels-idx1-ubyte.gz") as f:
        y = np.frombuffer(f.read(8 + n)[8:], np.uint8).astype(np.int64)
    return F.avg_pool2d(torch.from_numpy(x) / 255, 2), torch.from_numpy(y)


def augment(x):
    """random shift, rotation and noise for every image"""
    n = len(x)
    ang = (torch.rand(n) - 0.5) * 0.7
    theta = torch.zeros(n, 2, 3)
    theta[:, 0, 0], theta[:, 0, 1] = ang.cos(), -ang.sin()
    theta[:, 1, 0], theta[:, 1, 1] = ang.sin(), ang.cos()
    theta[:, :, 2] = (torch.rand(n, 2) - 0.5) * 0.4
    grid = F.affine_grid(theta, x.shape, align_corners=False)
    return F.grid_sample(x, grid, align_corners=False) + 0.05 * torch.randn_like(x)


class Encoder(nn.Module):
    def __init__(self, feat=32, proj=32):
        super().__init__()
        self.backbone = nn.Sequential(nn.Flatten(), nn.Linear(196, 128), nn.ReLU(), nn.Linear(128, feat), nn.ReLU())
        self.projector = nn.Sequential(nn.Linear(feat, 64), nn.ReLU(), nn.Linear(64, proj))

    def forward(self, x):
        return self.projector(self.backbone(x))


def nt_xent(z1, z2):
    z = F.normalize(torch.cat([z1, z2]), dim=1)
    sim = z @ z.T / TAU
    n2 = len(z)
    sim.fill_diagonal_(float("-inf"))
    target = (torch.arange(n2) + n2 // 2) % n2
    return F.cross_entropy(sim, target)


def linear_probe(encoder, train, test):
    encoder.eval()
    with torch.no_grad():
        f_train, f_test = encoder.backbone(train[0]), encoder.backbone(test[0])
    mu, sd = f_train.mean(0), f_train.std(0) + 1e-5
    f_train, f_test = (f_train - mu) / sd, (f_test - mu) / sd
    head = nn.Linear(f_train.shape[1], 10)
    optimizer = torch.optim.Adam(head.parameters(), lr=2e-2, weight_decay=1e-4)
    for _ in range(150):
        idx = torch.randint(0, len(f_train), (256,))
        loss = F.cross_entropy(head(f_train[idx]), train[1][idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        return (head(f_test).argmax(1) == test[1]).float().mean().item()


train, test = load("train", N), load("t10k", 1000)
encoder = Encoder()
optimizer = torch.optim.Adam(encoder.parameters(), lr=2e-3, weight_decay=1e-5)
encoder.train()
running = 0.0
for step in range(1, STEPS + 1):
    x = train[0][torch.randint(0, N, (BATCH,))]
    loss = nt_xent(encoder(augment(x)), encoder(augment(x)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    running += loss.item()
    if step % 50 == 0:
        print(f"step {step} contrastive loss {running / 50:.3f}")
        running = 0.0
print(f"linear probe test accuracy {linear_probe(encoder, train, test):.3f}")
