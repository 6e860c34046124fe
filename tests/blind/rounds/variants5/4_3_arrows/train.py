import argparse
import configparser
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Augment:
    def __init__(self, section):
        self.flip = section.getfloat("flip_probability")
        self.shift = section.getint("max_shift")
        self.gain = section.getfloat("brightness")

    def __call__(self, image):
        if torch.rand(()) < self.flip:
            image = image.flip(-1)
        if self.shift:
            dy, dx = torch.randint(-self.shift, self.shift + 1, (2,)).tolist()
            image = torch.roll(image, (dy, dx), (-2, -1))
        return image * (1 + self.gain * (2 * torch.rand(()) - 1))


class SignDataset(Dataset):
    def __init__(self, images, labels, mean, std, transform=None):
        self.images = (torch.from_numpy(images).float() / 255 - mean) / std
        self.labels = torch.from_numpy(labels).long()
        self.transform = transform

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        image = self.images[i][None]
        return (self.transform(image) if self.transform else image), self.labels[i]


def conv_bn(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(), nn.MaxPool2d(2))


class SignNet(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        self.stem = nn.Sequential(conv_bn(1, 12), conv_bn(12, 24))
        self.fc = nn.Sequential(nn.Flatten(), nn.Linear(24 * 16, 48), nn.ReLU(), nn.Linear(48, n_classes))

    def forward(self, x):
        return self.fc(self.stem(x))


def evaluate(net, loader, n_classes):
    net.eval()
    table = torch.zeros(n_classes, n_classes)
    with torch.no_grad():
        for x, y in loader:
            table.index_put_((y, net(x).argmax(1)), torch.ones(len(y)), accumulate=True)
    return (table.diag().sum() / table.sum()).item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    ini = configparser.ConfigParser()
    ini.read(folder / "train.ini")
    torch.manual_seed(ini.getint("train", "seed"))
    data = np.load(folder / "signs.npz")
    n_classes = len(data["names"])
    mean, std = data["train_x"].mean() / 255, data["train_x"].std() / 255
    sets = {p: SignDataset(data[p + "_x"], data[p + "_y"], mean, std, Augment(ini["augment"]) if p == "train" else None)
            for p in ("train", "valid", "test")}
    loaders = {p: DataLoader(s, ini.getint("train", "batch_size"), shuffle=p == "train") for p, s in sets.items()}
    net = SignNet(n_classes)
    opt = torch.optim.AdamW(net.parameters(), lr=ini.getfloat("train", "lr"), weight_decay=1e-3)
    for epoch in range(ini.getint("train", "epochs")):
        net.train()
        total = 0.0
        for x, y in loaders["train"]:
            loss = nn.functional.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(y)
        print(f"epoch {epoch + 1} loss {total / len(sets['train']):.4f} valid acc {evaluate(net, loaders['valid'], n_classes):.4f}")
    print(f"test acc {evaluate(net, loaders['test'], n_classes):.4f}")


if __name__ == "__main__":
    main()
