"""Two-stage self-training on MNIST: a teacher from few labels, a student on its confident predictions."""
import os
import gzip
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset

DATA = Path(os.environ["TRUELOOP_DATA"] + "/mnist")
N_LABELLED, N_UNLABELLED, N_TEST = 300, 4000, 2000
THRESHOLD = 0.8


def load_split():
    with gzip.open(DATA / "t10k-images-idx3-ubyte.gz") as f:
        images = np.frombuffer(f.read(), np.uint8, offset=16).reshape(-1, 784)
    with gzip.open(DATA / "t10k-labels-idx1-ubyte.gz") as f:
        labels = np.frombuffer(f.read(), np.uint8, offset=8)
    order = np.random.default_rng(0).permutation(len(labels))
    x = torch.from_numpy(images[order].astype(np.float32) / 255.0)
    x = (x - 0.1307) / 0.3081
    y = torch.from_numpy(labels[order].astype(np.int64))
    a, b = N_LABELLED, N_LABELLED + N_UNLABELLED
    return TensorDataset(x[:a], y[:a]), TensorDataset(x[a:b]), TensorDataset(x[b:b + N_TEST], y[b:b + N_TEST])


def make_net():
    return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Dropout(0.3), nn.Linear(128, 10))


def accuracy(model, loader):
    model.eval()
    hit = n = 0
    with torch.no_grad():
        for x, y in loader:
            hit += (model(x).argmax(1) == y).sum().item()
            n += len(y)
    return hit / n


def fit(name, model, dataset, test_loader, epochs, lr):
    loader = DataLoader(dataset, batch_size=64, shuffle=True)
    opt = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=1e-2)
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for x, y in loader:
            opt.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"{name} epoch {epoch}: loss {total / len(loader):.3f} test acc {accuracy(model, test_loader):.3f}")


@torch.no_grad()
def pseudo_label(teacher, pool):
    teacher.eval()
    loader = DataLoader(pool, batch_size=256, shuffle=False)
    confidence, labels = [], []
    for (x,) in loader:
        prob = teacher(x).softmax(1)
        conf, lab = prob.max(1)
        confidence.append(conf)
        labels.append(lab)
    confidence, labels = torch.cat(confidence), torch.cat(labels)
    keep = confidence > THRESHOLD
    print(f"kept {int(keep.sum())} of {len(keep)} unlabelled images, mean confidence {confidence.mean():.3f}")
    return TensorDataset(pool.tensors[0][keep], labels[keep])


def main():
    torch.manual_seed(0)
    labelled, unlabelled, test = load_split()
    test_loader = DataLoader(test, batch_size=500)

    teacher = make_net()
    fit("teacher", teacher, labelled, test_loader, epochs=8, lr=2e-3)

    extra = pseudo_label(teacher, unlabelled)
    student = make_net()
    fit("student", student, ConcatDataset([labelled, extra]), test_loader, epochs=5, lr=1e-3)
    print(f"final: teacher {accuracy(teacher, test_loader):.3f} student {accuracy(student, test_loader):.3f}")


if __name__ == "__main__":
    main()
