"""Linear probe on a pretrained digit backbone (FOLDER/backbone.pt), few labels."""
import gzip, os
import sys
from pathlib import Path
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

DATA = Path(os.environ["TRUELOOP_DATA"] + "/mnist")
FOLDER = Path(sys.argv[1])


def digits(name, skip, count):
    with gzip.open(DATA / f"{name}-images-idx3-ubyte.gz") as f:
        f.read(16 + 784 * skip)
        raw = np.frombuffer(f.read(784 * count), np.uint8).reshape(count, 1, 28, 28)
    with gzip.open(DATA / f"{name}-labels-idx1-ubyte.gz") as f:
        f.read(8 + skip)
        label = np.frombuffer(f.read(count), np.uint8)
    return torch.tensor(raw.astype(np.float32) / 255), torch.tensor(label.astype(np.int64))


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(1, 8, 5, stride=2), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2), nn.ReLU())
        self.embed = nn.Linear(16 * 25, 16)

    def forward(self, x):
        return torch.tanh(self.embed(self.conv(x).flatten(1)))


class Probe(nn.Module):
    def __init__(self, backbone):
        super().__init__()
        self.backbone = backbone.eval().requires_grad_(False)
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        with torch.no_grad():
            z = self.backbone(x)
        return self.head(z)


def main(epochs=12, batch=32, lr=1e-2):
    torch.manual_seed(10)
    backbone = Backbone()
    state = torch.load(FOLDER / "backbone.pt", weights_only=True)
    backbone.load_state_dict(state["model"], strict=False)
    print(f"backbone of run {state['run']} loaded, {len(state['model'])} tensors")
    model = Probe(backbone)
    x_train, y_train = digits("train", 20000, 1000)
    x_val, y_val = digits("t10k", 0, 1000)
    optimizer = torch.optim.Adam(model.head.parameters(), lr=lr)
    for epoch in range(epochs):
        model.head.train()
        total = 0.0
        for idx in torch.randperm(len(x_train)).split(batch):
            loss = F.cross_entropy(model(x_train[idx]), y_train[idx])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(idx)
        model.head.eval()
        with torch.no_grad():
            acc = (model(x_val).argmax(1) == y_val).float().mean().item()
        if epoch % 3 == 2:
            print(f"epoch {epoch:2d} loss {total / len(x_train):.3f} val acc {acc:.3f}")


if __name__ == "__main__":
    main()
