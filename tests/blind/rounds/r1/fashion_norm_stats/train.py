"""Fashion-MNIST linear + MLP baseline; pixel statistics come from FOLDER/norm.json."""
import gzip, os
import json
import sys
from pathlib import Path
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

DATA = Path(os.environ["TRUELOOP_DATA"] + "/fashion-mnist")


def images(name, count):
    with gzip.open(DATA / f"{name}-images-idx3-ubyte.gz") as f:
        raw = np.frombuffer(f.read(16 + 784 * count)[16:], np.uint8).reshape(count, 784)
    with gzip.open(DATA / f"{name}-labels-idx1-ubyte.gz") as f:
        label = np.frombuffer(f.read(8 + count)[8:], np.uint8)
    return torch.tensor(raw.astype(np.float32) / 255), torch.tensor(label.astype(np.int64))


class Normalize(nn.Module):
    def __init__(self, stats):
        super().__init__()
        self.register_buffer("mean", torch.tensor(stats["mean"]))
        self.register_buffer("std", torch.tensor(stats["std"]))

    def forward(self, x):
        return (x - self.mean) / self.std


def main(folder, epochs=8, batch=64, lr=0.02):
    stats = json.loads((folder / "norm.json").read_text())
    torch.manual_seed(stats["seed"])
    x_train, y_train = images("train", 3000)
    x_val, y_val = images("t10k", 1500)
    model = nn.Sequential(Normalize(stats), nn.Linear(784, 96), nn.ReLU(), nn.Linear(96, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=1e-4)
    for epoch in range(epochs):
        model.train()
        losses = []
        for idx in torch.randperm(len(x_train)).split(batch):
            loss = F.cross_entropy(model(x_train[idx]), y_train[idx])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        model.eval()
        with torch.no_grad():
            logits = model(x_val)
        acc = (logits.argmax(1) == y_val).float().mean().item()
        print(f"epoch {epoch} train {np.mean(losses):.3f} val {F.cross_entropy(logits, y_val):.3f} acc {acc:.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
