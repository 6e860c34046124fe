"""Siamese embedding of digits by a contrastive loss on the positive pairs and the hardest negative pairs."""

import gzip
import os
from itertools import combinations

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
np.random.seed(0)
FOLDER = os.path.join(os.environ["TRUELOOP_DATA"], "mnist")


def read(split, count):
    with gzip.open(f"{FOLDER}/{split}-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(16 + count * 784)[16:], np.uint8).reshape(count, 1, 28, 28)
    with gzip.open(f"{FOLDER}/{split}-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(8 + count)[8:], np.uint8)
    return torch.tensor(images / 255.0, dtype=torch.float32), torch.tensor(labels, dtype=torch.long)


def select_pairs(embeddings, labels):
    """Every positive pair, and as many negative pairs: the hardest ones."""
    pairs = torch.tensor(list(combinations(range(len(labels)), 2)))
    same = labels[pairs[:, 0]] == labels[pairs[:, 1]]
    positive, negative = pairs[same], pairs[~same]
    with torch.no_grad():
        distances = (embeddings[negative[:, 0]] - embeddings[negative[:, 1]]).pow(2).sum(1)
    order = distances.argsort()[: len(positive)]
    return positive, negative[order]


net = nn.Sequential(nn.Conv2d(1, 16, 5, 2), nn.PReLU(), nn.Conv2d(16, 32, 5, 2), nn.PReLU(), nn.Flatten(),
                    nn.Linear(512, 8))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
images, labels = read("train", 2000)
gallery, gallery_labels = images[:1000], labels[:1000]
queries, query_labels = read("t10k", 500)
MARGIN = 1.0

for epoch in range(4):
    for rows in torch.randperm(len(images)).split(50):
        embeddings = net(images[rows])
        positive, negative = select_pairs(embeddings, labels[rows])
        near = (embeddings[positive[:, 0]] - embeddings[positive[:, 1]]).pow(2).sum(1)
        far = F.relu(MARGIN - (embeddings[negative[:, 0]] - embeddings[negative[:, 1]]).pow(2).sum(1).sqrt()).pow(2)
        loss = torch.cat([near, far]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        distances = torch.cdist(net(queries), net(gallery))
        right = (gallery_labels[distances.argmin(1)] == query_labels).float().mean()
    print(f"epoch {epoch} loss {loss.item():.4f} nearest neighbour accuracy {right.item():.3f}")
