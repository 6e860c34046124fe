import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Normalizer:
    def __init__(self, path):
        stats = json.loads(path.read_text())
        self.bands = stats["bands"]
        self.mean = torch.tensor([stats["mean"][b] for b in self.bands])
        self.std = torch.tensor([stats["std"][b] for b in self.bands])

    def __call__(self, x):
        return (x - self.mean) / self.std


class CropNet(nn.Module):
    def __init__(self, bands, classes):
        super().__init__()
        self.fc1 = nn.Linear(bands, 48)
        self.fc2 = nn.Linear(48, 48)
        self.head = nn.Linear(48, classes)

    def forward(self, x):
        x = torch.tanh(self.fc1(x))
        x = torch.tanh(self.fc2(x))
        return self.head(x)


def dataset(folder, part, normalizer):
    raw = np.load(folder / f"{part}.npy", allow_pickle=False)
    x = torch.from_numpy(np.stack([raw[b] for b in normalizer.bands], 1).astype(np.float32))
    return TensorDataset(normalizer(x), torch.from_numpy(raw["crop"].astype(np.int64)))


def evaluate(model, loader):
    model.eval()
    correct = 0
    with torch.no_grad():
        for x, y in loader:
            correct += int((model(x).argmax(1) == y).sum())
    return correct / len(loader.dataset)


def main():
    folder = Path(sys.argv[1])
    torch.manual_seed(37)
    norm = Normalizer(folder / "band_stats.json")
    train = dataset(folder, "train", norm)
    valid = dataset(folder, "valid", norm)
    loader = DataLoader(train, batch_size=128, shuffle=True)
    v_loader = DataLoader(valid, batch_size=500)
    model = CropNet(len(norm.bands), 6)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    sched = torch.optim.lr_scheduler.StepLR(opt, step_size=8, gamma=0.3)
    for epoch in range(12):
        model.train()
        for x, y in loader:
            opt.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
        sched.step()
        if epoch % 3 == 2:
            print(f"epoch {epoch + 1:2d} loss {loss.item():.4f} accuracy {evaluate(model, v_loader):.4f}")
    print(f"accuracy {evaluate(model, v_loader):.4f}")


if __name__ == "__main__":
    main()
