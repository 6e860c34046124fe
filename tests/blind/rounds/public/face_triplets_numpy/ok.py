"""Embeddings by a triplet loss on the hard triplets of a batch, with a small classification loss beside it."""

import gzip
import os

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
rng = np.random.default_rng(0)
FOLDER = os.path.join(os.environ["TRUELOOP_DATA"], "fashion-mnist")


def read(split, count):
    with gzip.open(f"{FOLDER}/{split}-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(16 + count * 784)[16:], np.uint8).reshape(count, 784)
    with gzip.open(f"{FOLDER}/{split}-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(8 + count)[8:], np.uint8).astype(np.int64)
    return torch.tensor(images / 255.0, dtype=torch.float32), labels


class FaceModel(nn.Module):
    def __init__(self, people):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 32))
        self.classifier = nn.Linear(32, people)

    def forward(self, x):
        return F.normalize(self.body(x), dim=1) * 4

    def forward_classifier(self, x):
        return self.classifier(self.forward(x))


x, y = read("train", 3000)
test_x, test_y = read("t10k", 600)
seen = np.flatnonzero(y < 8)  # two of the classes are only met in the test, as new people are
by_label = {label: np.flatnonzero(y == label) for label in range(8)}
model = FaceModel(8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
MARGIN = 1.0

for epoch in range(5):
    picked = 0
    for _ in range(40):
        anchor = rng.choice(seen, 64)
        positive = np.array([rng.choice(by_label[y[i]]) for i in anchor])
        negative = np.array([rng.choice(by_label[(y[i] + rng.integers(1, 8)) % 8]) for i in anchor])
        out_a, out_p, out_n = model(x[anchor]), model(x[positive]), model(x[negative])
        d_p, d_n = (out_a - out_p).pow(2).sum(1).sqrt(), (out_a - out_n).pow(2).sum(1).sqrt()
        hard_triplets = np.flatnonzero((d_n - d_p < MARGIN).detach().numpy())
        if len(hard_triplets) == 0:
            continue
        out_selected_a = out_a[hard_triplets]
        out_selected_p = out_p[hard_triplets]
        out_selected_n = out_n[hard_triplets]
        triplet_loss = F.triplet_margin_loss(out_selected_a, out_selected_p, out_selected_n, margin=MARGIN)
        predicted = model.forward_classifier(x[anchor[hard_triplets]])
        cross_entropy = F.cross_entropy(predicted, torch.from_numpy(y[anchor[hard_triplets]]))
        loss = 0.01 * cross_entropy + triplet_loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        picked += len(hard_triplets)
    model.eval()
    with torch.no_grad():
        out = model(test_x)
        distance = torch.cdist(out, out)
        distance.fill_diagonal_(float("inf"))
        same = (test_y[distance.argmin(1).numpy()] == test_y).mean()
        spread = distance[torch.from_numpy(test_y[:, None] != test_y[None])].mean() / distance[
            torch.from_numpy((test_y[:, None] == test_y[None]) & ~np.eye(len(test_y), dtype=bool))].mean()
    model.train()
    print(f"epoch {epoch} triplet {triplet_loss.item():.3f} hard {picked} nearest {same:.3f} spread {spread.item():.2f}")
