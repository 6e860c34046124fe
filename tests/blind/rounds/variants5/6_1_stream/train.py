import argparse
import csv
import random
from pathlib import Path

import torch
import yaml
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class ShardStream(IterableDataset):
    """Reads csv shards one after the other, through a shuffle buffer."""

    def __init__(self, files, buffer, seed):
        self.files, self.buffer = files, buffer
        self.rng = random.Random(seed)

    def rows(self):
        files = list(self.files)
        if self.buffer > 1:
            self.rng.shuffle(files)
        for file in files:
            with open(file, newline="") as handle:
                reader = csv.reader(handle)
                next(reader)
                for line in reader:
                    yield torch.tensor([float(v) for v in line[:-1]]), int(line[-1])

    def __iter__(self):
        pool = []
        for row in self.rows():
            pool.append(row)
            if len(pool) >= self.buffer:
                yield pool.pop(self.rng.randrange(len(pool)))
        self.rng.shuffle(pool)
        yield from pool


class Net(nn.Module):
    def __init__(self, mean, std, hidden, classes):
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)
        self.layers = nn.Sequential(nn.Linear(len(mean), hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, classes))

    def forward(self, x):
        return self.layers((x - self.mean) / self.std)


def whole(files):
    rows = list(ShardStream(files, 1, 0).rows())
    return torch.stack([r[0] for r in rows]), torch.tensor([r[1] for r in rows])


@torch.no_grad()
def accuracy(net, x, y):
    net.eval()
    return (net(x).argmax(1) == y).float().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    cfg = yaml.safe_load((folder / "stream.yaml").read_text())
    torch.manual_seed(cfg["seed"])
    files = {p: [folder / name for name in cfg["shards"][p]] for p in ("train", "valid", "test")}
    sample, _ = whole(files["train"])
    net = Net(sample.mean(0), sample.std(0), cfg["hidden"], cfg["classes"])
    stream = ShardStream(files["train"], cfg["shuffle_buffer"], cfg["seed"])
    loader = DataLoader(stream, batch_size=cfg["batch_size"])
    valid = whole(files["valid"])
    opt = torch.optim.Adam(net.parameters(), lr=cfg["lr"])
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, cfg["decay"])
    for epoch in range(cfg["epochs"]):
        net.train()
        total = count = 0
        for x, y in loader:
            loss = nn.functional.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(y)
            count += len(y)
        sched.step()
        print(f"epoch {epoch + 1} rows {count} loss {total / count:.4f} valid acc {accuracy(net, *valid):.4f}")
    print(f"test acc {accuracy(net, *whole(files['test'])):.4f}")


if __name__ == "__main__":
    main()
