"""Land cover from small four-band satellite tiles."""
import json
import sys
from pathlib import Path
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def normaliser(path):
    stats = json.loads(Path(path).read_text())
    mean = torch.tensor(stats["mean"]).view(1, -1, 1, 1)
    std = torch.tensor(stats["std"]).view(1, -1, 1, 1)
    return lambda x: (x - mean) / std


def conv_net(bands, classes):
    return nn.Sequential(
        nn.Conv2d(bands, 12, 3), nn.ReLU(),
        nn.Conv2d(12, 12, 3), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(12, classes),
    )


def epoch_pass(net, loader, opt):
    net.train()
    hits, total, loss_sum = 0, 0, 0.0
    for x, y in loader:
        opt.zero_grad()
        logits = net(x)
        loss = nn.functional.cross_entropy(logits, y)
        loss.backward()
        opt.step()
        hits += (logits.argmax(1) == y).sum().item()
        total += len(y)
        loss_sum += loss.item() * len(y)
    return loss_sum / total, hits / total


def evaluate(net, loader):
    net.eval()
    hits = total = 0
    with torch.no_grad():
        for x, y in loader:
            hits += (net(x).argmax(1) == y).sum().item()
            total += len(y)
    return hits / total


if __name__ == "__main__":
    home = Path(sys.argv[1])
    torch.manual_seed(14)
    arrays = np.load(home / "tiles.npz")
    norm = normaliser(home / "stats.json")
    sets = {}
    for part in ("train", "test"):
        x = norm(torch.from_numpy(arrays[f"x_{part}"]))
        sets[part] = TensorDataset(x, torch.from_numpy(arrays[f"y_{part}"]))
    train_loader = DataLoader(sets["train"], batch_size=30, shuffle=True)
    test_loader = DataLoader(sets["test"], batch_size=200)
    net = conv_net(4, 4)
    opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
    for epoch in range(15):
        loss, acc = epoch_pass(net, train_loader, opt)
        if epoch % 5 == 4:
            print(f"epoch {epoch + 1:2d} loss {loss:.3f} train acc {acc:.3f}")
    print(f"test acc {evaluate(net, test_loader):.4f}")
