"""Segmentation of bright discs from 40 pictures; a larger training set is made by augmentation first."""

import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
random.seed(0)
rng = np.random.default_rng(0)
SIZE = 24
seed_for_random = 42


def scene():
    image, mask = rng.normal(0, 0.5, (SIZE, SIZE)), np.zeros((SIZE, SIZE))
    rows, columns = np.mgrid[:SIZE, :SIZE]
    for _ in range(rng.integers(1, 4)):
        r, c, radius = rng.integers(3, 21), rng.integers(3, 21), rng.integers(2, 5)
        mask[(rows - r) ** 2 + (columns - c) ** 2 < radius**2] = 1
    return (image + mask).astype(np.float32), mask.astype(np.float32)


def rotation(image, mask):
    random.seed(seed_for_random)
    turns = random.randint(0, 3)
    return np.rot90(image, turns), np.rot90(mask, turns)


def flip(image, mask):
    random.seed(seed_for_random)
    if random.random() < 0.5:
        return np.fliplr(image), np.fliplr(mask)
    return np.flipud(image), np.flipud(mask)


originals = [scene() for _ in range(40)]
images, masks = [], []
while len(images) < 400:
    number = random.randint(0, len(originals) - 1)
    image, mask = originals[number]
    for transform in (rotation, flip):
        image, mask = transform(image, mask)
    images.append(image.copy())
    masks.append(mask.copy())
train_x, train_y = torch.tensor(np.stack(images))[:, None], torch.tensor(np.stack(masks))[:, None]
test = [scene() for _ in range(200)]
test_x, test_y = torch.tensor(np.stack([i for i, _ in test]))[:, None], torch.tensor(np.stack([m for _, m in test]))[:, None]

net = nn.Sequential(nn.Conv2d(1, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 24, 3, padding=1), nn.ReLU(),
                    nn.Conv2d(24, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 1, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
for epoch in range(5):
    for rows in torch.randperm(len(train_x)).split(20):
        loss = F.binary_cross_entropy_with_logits(net(train_x[rows]), train_y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        guess = net(test_x) > 0
        dice = 2 * (guess * test_y).sum() / (guess.sum() + test_y.sum())
        test_loss = F.binary_cross_entropy_with_logits(net(test_x), test_y)
    print(f"epoch {epoch} train {loss.item():.4f} test {test_loss.item():.4f} dice {dice.item():.3f}")
