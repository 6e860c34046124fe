"""Sort hide patches by surface defect. Usage: python train.py DIR"""
import json
import random
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class HideStream(IterableDataset):
    """Reads the archive front to back through a buffer, from which items are drawn at random."""

    def __init__(self, path, buffer=0, seed=0):
        pack = np.load(path)
        self.image, self.grade = pack["image"], pack["grade"]
        self.buffer, self.rng = buffer, random.Random(seed)

    def __len__(self):
        return len(self.grade)

    def item(self, i):
        return torch.from_numpy(self.image[i]).float().unsqueeze(0), int(self.grade[i])

    def __iter__(self):
        if self.buffer == 0:
            yield from (self.item(i) for i in range(len(self)))
            return
        held = []
        for i in range(len(self)):
            held.append(i)
            if len(held) >= self.buffer:
                k = self.rng.randrange(len(held))
                held[k], held[-1] = held[-1], held[k]
                yield self.item(held.pop())
        self.rng.shuffle(held)
        for i in held:
            yield self.item(i)


class Block(nn.Sequential):
    def __init__(self, cin, cout):
        super().__init__(
            nn.Conv2d(cin, cout, 3, padding=1, bias=False),
            nn.BatchNorm2d(cout),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )


class HideNet(nn.Module):
    def __init__(self, n_grades, width, mean, std):
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean))
        self.register_buffer("std", torch.tensor(std))
        self.body = nn.Sequential(Block(1, width), Block(width, 2 * width), Block(2 * width, 4 * width))
        self.head = nn.Linear(4 * width, n_grades)

    def forward(self, x):
        z = self.body((x - self.mean) / self.std)
        return self.head(z.mean(dim=(2, 3)))


@torch.no_grad()
def evaluate(net, loader, n_grades):
    net.eval()
    table = torch.zeros(n_grades, n_grades, dtype=torch.long)
    for x, y in loader:
        pred = net(x).argmax(1)
        for t, p in zip(y.tolist(), pred.tolist()):
            table[t, p] += 1
    return table


def main(folder):
    cfg = json.loads((folder / "run.json").read_text())
    grades = (folder / "grades.txt").read_text().split()
    torch.manual_seed(cfg["seed"])
    opts = cfg["loader"]

    train = HideStream(folder / "train.npz", opts["shuffle_buffer"], cfg["seed"])
    val = HideStream(folder / "val.npz")
    train_loader = DataLoader(train, batch_size=opts["batch"], drop_last=opts["drop_last"])
    val_loader = DataLoader(val, batch_size=200)

    net = HideNet(len(grades), cfg["width"], float(train.image.mean()), float(train.image.std()))
    opt = torch.optim.AdamW(net.parameters(), lr=cfg["lr"], weight_decay=cfg["weight_decay"])
    steps = cfg["epochs"] * (len(train) // opts["batch"])
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=cfg["lr"], total_steps=steps)
    loss_fn = nn.CrossEntropyLoss()

    for epoch in range(cfg["epochs"]):
        net.train()
        total, count = 0.0, 0
        for x, y in train_loader:
            opt.zero_grad()
            loss = loss_fn(net(x), y)
            loss.backward()
            opt.step()
            sched.step()
            total += loss.item() * len(y)
            count += len(y)
        table = evaluate(net, val_loader, len(grades))
        acc = table.diag().sum().item() / table.sum().item()
        print(f"epoch {epoch + 1}: train loss {total / count:.4f}  val accuracy {acc:.3f}")

    recall = table.diag().float() / table.sum(1)
    print("recall:", ", ".join(f"{g} {r:.2f}" for g, r in zip(grades, recall.tolist())))
    print(f"final val accuracy {acc:.4f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
