import argparse
from pathlib import Path

import numpy as np
import torch
import yaml
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Crops(Dataset):
    def __init__(self, path, augment=False):
        with np.load(path) as z:
            self.rgb = torch.from_numpy(z["rgb"]).permute(0, 3, 1, 2).float().div(255)
            self.cls = torch.from_numpy(z["cls"]).long()
        self.augment = augment

    def __len__(self):
        return len(self.cls)

    def __getitem__(self, i):
        x = self.rgb[i]
        if self.augment and torch.rand(()) < 0.5:
            x = x.flip(-1)
        return x, self.cls[i]


class ConvBlock(nn.Module):
    def __init__(self, c_in, c_out):
        super().__init__()
        self.conv = nn.Conv2d(c_in, c_out, 3, stride=2, padding=1)
        self.bn = nn.BatchNorm2d(c_out)

    def forward(self, x):
        return torch.relu(self.bn(self.conv(x)))


class VehicleNet(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        self.trunk = nn.Sequential(ConvBlock(3, 12), ConvBlock(12, 24))
        self.head = nn.Linear(24 * 4 * 4, n_classes)

    def forward(self, x):
        return self.head(self.trunk(x).flatten(1))


@torch.no_grad()
def per_class(model, loader, names):
    model.eval()
    hit, n = torch.zeros(len(names)), torch.zeros(len(names))
    for x, y in loader:
        ok = model(x).argmax(1) == y
        hit.index_add_(0, y, ok.float())
        n.index_add_(0, y, torch.ones(len(y)))
    return hit.sum().item() / n.sum().item(), hit / n.clamp(min=1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("folder", type=Path)
    folder = ap.parse_args().folder
    conf = yaml.safe_load((folder / "data.yaml").read_text())
    torch.manual_seed(conf["seed"])
    train = DataLoader(Crops(folder / conf["train"], augment=True), batch_size=64, shuffle=True)
    valid = DataLoader(Crops(folder / conf["valid"]), batch_size=256)
    model = VehicleNet(len(conf["names"]))
    opt = torch.optim.AdamW(model.parameters(), lr=conf["lr"])
    for epoch in range(conf["epochs"]):
        model.train()
        total = 0.0
        for x, y in train:
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"epoch {epoch + 1} loss {total / len(train):.4f} accuracy {per_class(model, valid, conf['names'])[0]:.4f}")
    overall, _ = per_class(model, valid, conf["names"])
    print(f"accuracy {overall:.4f}")


if __name__ == "__main__":
    main()
