"""Name gender-like ending classifier: does the name end in a vowel sound? Character bag model with accumulation."""
import json
import os
import random
import sys
import torch
from torch import nn

NAMES = os.environ["TRUELOOP_DATA"] + "/names/names.txt"


def features(name):
    """Counts of the letters, and of the letters in the first half."""
    v = torch.zeros(52)
    for i, ch in enumerate(name):
        v[ord(ch) - 97] += 1
        if 2 * i < len(name):
            v[26 + ord(ch) - 97] += 1
    return v


def dataset(n_train=960, n_valid=400):
    with open(NAMES) as f:
        names = f.read().split()
    random.Random(0).shuffle(names)
    names = names[: n_train + n_valid]
    x = torch.stack([features(n) for n in names])
    y = torch.tensor([int(n[-1] in "aeiouy") for n in names])
    return x[:n_train], y[:n_train], x[n_train:], y[n_train:]


class Runner:
    def __init__(self, cfg):
        self.cfg = cfg
        self.model = nn.Sequential(nn.Linear(52, cfg["hidden"]), nn.ReLU(), nn.Linear(cfg["hidden"], 2))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=cfg["lr"])

    def train_epoch(self, x, y):
        self.model.train()
        self.optimizer.zero_grad()
        total, k = 0.0, self.cfg["accumulate"]
        batches = torch.randperm(len(x)).split(self.cfg["batch_size"])
        for i, idx in enumerate(batches, 1):
            loss = nn.functional.cross_entropy(self.model(x[idx]), y[idx])
            (loss / k).backward()
            if i % k == 0:
                self.optimizer.step()
                self.optimizer.zero_grad()
            total += loss.item()
        return total / len(batches)

    @torch.no_grad()
    def accuracy(self, x, y):
        self.model.eval()
        return (self.model(x).argmax(1) == y).float().mean().item()


if __name__ == "__main__":
    cfg = json.load(open(os.path.join(sys.argv[1], "train.json")))
    torch.manual_seed(cfg["seed"])
    x_train, y_train, x_valid, y_valid = dataset()
    runner = Runner(cfg)
    for epoch in range(cfg["epochs"]):
        loss = runner.train_epoch(x_train, y_train)
        print(f"epoch {epoch} loss {loss:.4f} valid acc {runner.accuracy(x_valid, y_valid):.3f}")
    print(f"valid accuracy {runner.accuracy(x_valid, y_valid):.3f} majority {max(y_valid.float().mean().item(), 1 - y_valid.float().mean().item()):.3f}")
