"""Adapt the digit encoder in FOLDER/pretrained.pt to odd/even with few labelled samples."""
import gzip
import os
import sys
import numpy as np
import torch
from torch import nn

ROOT = os.environ["TRUELOOP_DATA"] + "/mnist/t10k-"
SKIP, TRAIN, VALID = 6000, 200, 800


def load():
    stop = SKIP + TRAIN + VALID
    with gzip.open(ROOT + "images-idx3-ubyte.gz") as f:
        x = np.frombuffer(f.read(16 + 784 * stop), np.uint8, offset=16)[784 * SKIP:]
    with gzip.open(ROOT + "labels-idx1-ubyte.gz") as f:
        y = np.frombuffer(f.read(8 + stop), np.uint8, offset=8)[SKIP:]
    x = x.reshape(-1, 14, 2, 14, 2).mean((2, 4)).reshape(-1, 196) / 255
    x = torch.tensor((x - 0.13) / 0.3, dtype=torch.float32)
    y = torch.tensor(y % 2, dtype=torch.long)
    return x[:TRAIN], y[:TRAIN], x[TRAIN:], y[TRAIN:]


class OddEven(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(196, 48), nn.ReLU(), nn.Linear(48, 12), nn.ReLU())
        self.classifier = nn.Linear(12, 2)

    def forward(self, x):
        return self.classifier(self.body(x))


def load_encoder(model, path):
    stored = torch.load(path, weights_only=True)
    own = model.state_dict()
    own.update({k: v for k, v in stored.items() if k in own and v.shape == own[k].shape})
    model.load_state_dict(own)
    for p in model.body.parameters():
        p.requires_grad_(False)


def main(folder):
    torch.manual_seed(15)
    x_train, y_train, x_valid, y_valid = load()
    model = OddEven()
    load_encoder(model, os.path.join(folder, "pretrained.pt"))
    optimizer = torch.optim.Adam(model.classifier.parameters(), lr=2e-2)
    for epoch in range(12):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x_train)).split(20):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x_train[idx]), y_train[idx])
            loss.backward()
            optimizer.step()
            total += loss.item() * len(idx)
        model.eval()
        with torch.no_grad():
            acc = (model(x_valid).argmax(1) == y_valid).float().mean().item()
        print(f"epoch {epoch} loss {total / len(x_train):.4f} valid acc {acc:.3f}")
    print(f"odd/even valid accuracy {acc:.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
