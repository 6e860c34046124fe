"""Small hyperparameter search for an audio event classifier on log-mel statistics."""
import itertools

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

EVENTS = ["dog", "siren", "drill", "rain", "speech", "engine", "horn", "birds"]


def clips(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, len(EVENTS), n)
    mel = np.arange(32)
    centre = np.array([6, 20, 14, 25, 9, 3, 17, 28])[y] + rng.normal(0, 2.5, n)
    width = np.array([3, 2, 5, 8, 4, 3, 2, 3])[y] * np.exp(rng.normal(0, 0.2, n))
    level = np.exp(-0.5 * ((mel - centre[:, None]) / width[:, None]) ** 2) * 3
    noise = rng.normal(0, 0.8, (n, 32)) + rng.normal(0, 0.5, (n, 1))
    return (level + noise).astype(np.float32), y


class ClipSet(Dataset):
    def __init__(self, x, labels):
        self.x, self.labels = x, labels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return {"mel": self.x[i], "label": self.labels[i]}


def build(width, dropout):
    return nn.Sequential(nn.Linear(32, width), nn.ReLU(), nn.Dropout(dropout),
                         nn.Linear(width, width), nn.ReLU(), nn.Linear(width, len(EVENTS)))


def predict(model, loader):
    model.eval()
    with torch.no_grad():
        return torch.cat([model(b["mel"]).argmax(1) for b in loader]).numpy()


def train(model, loader, lr, epochs=6):
    opt = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    for _ in range(epochs):
        model.train()
        for b in loader:
            opt.zero_grad()
            nn.functional.cross_entropy(model(b["mel"]), b["label"]).backward()
            opt.step()
    return model


def make_loaders(sets, batch_size):
    loaders = {}
    for name, data in sets.items():
        loaders[name] = DataLoader(data, batch_size=batch_size, shuffle=name != "test")
    return loaders


def main():
    torch.manual_seed(1)
    x, y = clips(3600, seed=12)
    mean, std = x[:2000].mean(0), x[:2000].std(0)
    x = (x - mean) / std
    sets = {"train": ClipSet(x[:2000], y[:2000]),
            "val": ClipSet(x[2000:2800], y[2000:2800]),
            "test": ClipSet(x[2800:], y[2800:])}
    loaders = make_loaders(sets, 64)
    results = []
    for width, dropout, lr in itertools.product([4, 64], [0.0, 0.6], [3e-4, 3e-3, 3e-2]):
        model = train(build(width, dropout), loaders["train"], lr)
        acc = (predict(model, loaders["val"]) == sets["val"].labels).mean()
        results.append((acc, width, dropout, lr, model))
        print(f"width {width:3d} dropout {dropout} lr {lr:g}: val {acc:.4f}")
    acc, width, dropout, lr, model = max(results, key=lambda r: r[0])
    print(f"selected width {width} dropout {dropout} lr {lr:g}")
    test = (predict(model, loaders["test"]) == sets["test"].labels).mean()
    print(f"test_acc={test:.4f}")


if __name__ == "__main__":
    main()
