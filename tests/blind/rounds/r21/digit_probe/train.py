"""Linear probe: a frozen, pretrained digit encoder and 600 labelled images."""
import gzip
import os
import sys
from collections import OrderedDict
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

DATA = Path(os.environ["TRUELOOP_DATA"]) / "mnist"


def mnist(part, n):
    with gzip.open(DATA / f"{part}-images-idx3-ubyte.gz") as f:
        f.read(16)
        x = np.frombuffer(f.read(n * 784), dtype=np.uint8).astype(np.float32)
    with gzip.open(DATA / f"{part}-labels-idx1-ubyte.gz") as f:
        f.read(8)
        y = np.frombuffer(f.read(n), dtype=np.uint8).astype(np.int64)
    return torch.from_numpy(x).view(-1, 1, 28, 28) / 255 - 0.13, torch.from_numpy(y)


class Probe(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(OrderedDict(
            conv1=nn.Conv2d(1, 8, 5, stride=2, padding=2), act1=nn.ReLU(),
            conv2=nn.Conv2d(8, 16, 3, stride=2, padding=1), act2=nn.ReLU(),
            flat=nn.Flatten(), proj=nn.Linear(16 * 49, 32),
        ))
        self.classifier = nn.Linear(32, 10)

    def load_encoder(self, path):
        ckpt = torch.load(path, map_location="cpu", weights_only=True)
        # the checkpoint has no classifier
        self.load_state_dict(ckpt["model"], strict=False)
        print(f"encoder {ckpt['arch']} (epoch {ckpt['epoch']})")
        for p in self.encoder.parameters():
            p.requires_grad = False

    def forward(self, x):
        with torch.no_grad():
            z = F.relu(self.encoder(x))
        return self.classifier(z)


def test(model, x, y):
    model.eval()
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()


def main(folder):
    torch.manual_seed(9)
    x, y = mnist("train", 600)
    x_test, y_test = mnist("t10k", 2000)
    model = Probe()
    model.load_encoder(Path(folder) / "encoder.pt")
    opt = torch.optim.Adam(model.classifier.parameters(), lr=1e-2)
    for epoch in range(20):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(50):
            loss = F.cross_entropy(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        if epoch % 5 == 4:
            print(f"epoch {epoch + 1:2d}  loss {total / len(x):.4f}  test accuracy {test(model, x_test, y_test):.4f}")
    print(f"test accuracy: {test(model, x_test, y_test):.4f}")


if __name__ == "__main__":
    main(sys.argv[1])
