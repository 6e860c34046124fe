import json
import pathlib
import sys

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Films(Dataset):
    def __init__(self, images, labels, augment=None, seed=0):
        self.x = torch.from_numpy(images).float().div(255).sub(0.45).div(0.18)
        self.y = torch.from_numpy(labels).long()
        self.augment = augment
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        x = self.x[i]
        if self.augment:
            x = self.transform(x)
        return x[None], self.y[i]

    def transform(self, x):
        a = self.augment
        s = a["shift"]
        if s:
            dy, dx = self.rng.integers(-s, s + 1, 2)
            x = torch.roll(x, (int(dy), int(dx)), (0, 1))
        if self.rng.random() < a["hflip"]:
            x = x.flip(-1)
        x = x * (1 + a["gain"] * self.rng.normal())
        return x + a["noise"] * torch.randn_like(x)


class FilmNet(nn.Module):
    def __init__(self, width, dropout, n_classes):
        super().__init__()

        def block(i, o):
            return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(),
                                 nn.MaxPool2d(2))

        self.stem = nn.Sequential(block(1, width), block(width, 2 * width))
        self.head = nn.Sequential(nn.Flatten(), nn.Dropout(dropout), nn.Linear(2 * width * 36, n_classes))

    def forward(self, x):
        return self.head(self.stem(x))


def evaluate(net, loader, n):
    net.eval()
    table = torch.zeros(n, n, dtype=torch.long)
    with torch.no_grad():
        for x, y in loader:
            for t, p in zip(y, net(x).argmax(1)):
                table[t, p] += 1
    net.train()
    return table


def main():
    home = pathlib.Path(sys.argv[1])
    recipe = json.loads((home / "recipe.json").read_text())
    opt_cfg, names = recipe["train"], recipe["classes"]
    torch.manual_seed(opt_cfg["seed"])
    d = np.load(home / "films.npz")
    train = Films(d["x_train"], d["y_train"], recipe["augment"], opt_cfg["seed"])
    test = Films(d["x_test"], d["y_test"])
    loader = DataLoader(train, opt_cfg["batch_size"], shuffle=True)
    net = FilmNet(n_classes=len(names), **recipe["model"])
    opt = torch.optim.SGD(net.parameters(), lr=10 * opt_cfg["lr"], momentum=0.9, nesterov=True, weight_decay=5e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, opt_cfg["epochs"] * len(loader))
    crit = nn.CrossEntropyLoss()
    for epoch in range(1, opt_cfg["epochs"] + 1):
        losses = []
        for x, y in loader:
            loss = crit(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            losses.append(loss.item())
        print(f"epoch {epoch:2d}  loss {np.mean(losses):.4f}")
    table = evaluate(net, DataLoader(test, 100), len(names))
    for k, name in enumerate(names):
        print(f"{name:>14}: recall {table[k, k].item() / table[k].sum().item():.3f}")
    print(f"test accuracy {table.diag().sum().item() / table.sum().item():.4f}")


if __name__ == "__main__":
    main()
