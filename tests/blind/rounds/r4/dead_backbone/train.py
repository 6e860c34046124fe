import gzip, os
import sys
from pathlib import Path
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

HERE = Path(__file__).parent / sys.argv[1]
DATA = Path(os.environ["TRUELOOP_DATA"] + "/fashion-mnist")


def images(split, n):
    with gzip.open(DATA / f"{split}-images-idx3-ubyte.gz") as f:
        x = np.frombuffer(f.read(16 + 784 * n), np.uint8, offset=16).reshape(n, 784)
    with gzip.open(DATA / f"{split}-labels-idx1-ubyte.gz") as f:
        y = np.frombuffer(f.read(8 + n), np.uint8, offset=8)
    return torch.from_numpy(x.astype(np.float32) / 255), torch.from_numpy(y.astype(np.int64))


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer1 = nn.Linear(784, 40)
        self.layer2 = nn.Linear(40, 32)

    def forward(self, x):
        return torch.relu(self.layer2(torch.relu(self.layer1(x))))


class Classifier(nn.Module):
    def __init__(self, backbone, classes=10):
        super().__init__()
        self.backbone = backbone.requires_grad_(False)
        self.head = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, classes))

    def forward(self, x):
        return self.head(self.backbone(x))


def epoch_loop(model, loader, opt=None):
    model.train(opt is not None)
    loss_sum, hits, n = 0.0, 0, 0
    with torch.set_grad_enabled(opt is not None):
        for x, y in loader:
            out = model(x)
            loss = nn.functional.cross_entropy(out, y)
            if opt is not None:
                opt.zero_grad()
                loss.backward()
                opt.step()
            loss_sum += loss.item() * len(y)
            hits += (out.argmax(1) == y).sum().item()
            n += len(y)
    return loss_sum / n, hits / n


def main():
    torch.manual_seed(6)
    backbone = Backbone()
    backbone.load_state_dict(torch.load(HERE / "backbone.pt"))
    print("backbone loaded:", ", ".join(backbone.state_dict()))
    model = Classifier(backbone)
    train = DataLoader(TensorDataset(*images("train", 2500)), batch_size=50, shuffle=True)
    test = DataLoader(TensorDataset(*images("t10k", 1500)), batch_size=250)
    opt = torch.optim.Adam(model.head.parameters(), lr=3e-3)
    for epoch in range(6):
        tl, ta = epoch_loop(model, train, opt)
        vl, va = epoch_loop(model, test)
        print(f"epoch {epoch} train loss {tl:.4f} acc {ta:.3f} test loss {vl:.4f} acc {va:.3f}")


if __name__ == "__main__":
    main()
