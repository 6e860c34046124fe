import copy, os
import gzip
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ROOT = os.environ["TRUELOOP_DATA"] + "/fashion-mnist/t10k-"


def load(n):
    with gzip.open(ROOT + "images-idx3-ubyte.gz") as f:
        x = np.frombuffer(f.read(16 + n * 784), np.uint8, offset=16).reshape(n, 14, 2, 14, 2).mean((2, 4)) / 255
    with gzip.open(ROOT + "labels-idx1-ubyte.gz") as f:
        y = np.frombuffer(f.read(8 + n), np.uint8, offset=8)
    return torch.tensor(x.reshape(n, 196), dtype=torch.float32), torch.tensor(y, dtype=torch.long)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(196)
        self.fc1, self.bn1 = nn.Linear(196, 64), nn.BatchNorm1d(64)
        self.fc2, self.bn2 = nn.Linear(64, 48), nn.BatchNorm1d(48)
        self.out = nn.Linear(48, 10)

    def forward(self, x):
        h = torch.relu(self.bn1(self.fc1(self.norm(x))))
        return self.out(torch.relu(self.bn2(self.fc2(h))))


class EMA:
    def __init__(self, model, decay=0.97):
        self.decay = decay
        self.module = copy.deepcopy(model).eval()
        for p in self.module.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for mine, theirs in zip(self.module.parameters(), model.parameters()):
            mine.mul_(self.decay).add_(theirs, alpha=1 - self.decay)
        for mine, theirs in zip(self.module.buffers(), model.buffers()):
            mine.copy_(theirs)


@torch.no_grad()
def accuracy(model, x, y):
    model.eval()
    return (model(x).argmax(1) == y).float().mean().item()


def main():
    torch.manual_seed(31)
    x, y = load(3600)
    x_train, y_train, x_valid, y_valid = x[:3000], y[:3000], x[3000:], y[3000:]
    loader = DataLoader(TensorDataset(x_train, y_train), batch_size=60, shuffle=True)
    model = Classifier()
    ema = EMA(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(5):
        model.train()
        total = 0.0
        for xb, yb in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(xb), yb)
            loss.backward()
            optimizer.step()
            ema.update(model)
            total += loss.item()
        print(f"epoch {epoch} loss {total / len(loader):.4f} raw {accuracy(model, x_valid, y_valid):.3f}")
    print(f"raw model {accuracy(model, x_valid, y_valid):.3f} released EMA model {accuracy(ema.module, x_valid, y_valid):.3f}")


if __name__ == "__main__":
    main()
