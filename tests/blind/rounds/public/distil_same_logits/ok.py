"""A small network learns from the soft outputs of a large one, with few labels."""

import gzip
import os

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
FOLDER = os.path.join(os.environ["TRUELOOP_DATA"], "mnist")


def read(split, count):
    with gzip.open(f"{FOLDER}/{split}-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(16 + count * 784)[16:], np.uint8).reshape(count, 784)
    with gzip.open(f"{FOLDER}/{split}-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(8 + count)[8:], np.uint8)
    return torch.tensor(images / 255.0, dtype=torch.float32), torch.tensor(labels, dtype=torch.long)


def accuracy(net, x, y):
    net.eval()
    with torch.no_grad():
        result = (net(x).argmax(1) == y).float().mean().item()
    net.train()
    return result


x, y = read("train", 4000)
test_x, test_y = read("t10k", 1000)
large = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Dropout(0.3), nn.Linear(256, 10))
small = nn.Sequential(nn.Linear(784, 16), nn.ReLU(), nn.Linear(16, 10))

optimizer = torch.optim.Adam(large.parameters(), lr=1e-3)
for _ in range(5):
    for rows in torch.randperm(len(x)).split(64):
        optimizer.zero_grad()
        F.cross_entropy(large(x[rows]), y[rows]).backward()
        optimizer.step()
print(f"large {accuracy(large, test_x, test_y):.3f}")

large.eval()
temperature, has_label = 5.0, torch.arange(len(x)) < 100
kl_div = nn.KLDivLoss(reduction="batchmean")
optimizer = torch.optim.Adam(small.parameters(), lr=1e-3)
for epoch in range(8):
    for rows in torch.randperm(len(x)).split(64):
        with torch.no_grad():
            large_logits = large(x[rows])
        output = small(x[rows])
        soft_targets = F.softmax(large_logits / temperature, dim=-1)
        soft_prob = F.log_softmax(output / temperature, dim=-1)
        soft_loss = kl_div(soft_prob, soft_targets) * temperature**2
        known = has_label[rows]
        hard_loss = F.cross_entropy(output[known], y[rows][known]) if known.any() else output.sum() * 0.0
        loss = 0.9 * soft_loss + 0.1 * hard_loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} soft {soft_loss.item():.3f} hard {hard_loss.item():.3f} small {accuracy(small, test_x, test_y):.3f}")
