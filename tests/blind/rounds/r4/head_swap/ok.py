"""Fine-tune a small CNN pretrained on digits for 6 garment classes."""
import gzip, os
from dataclasses import dataclass
from pathlib import Path
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ROOT = Path(os.environ["TRUELOOP_DATA"])


@dataclass
class Config:
    pretrain_epochs: int = 3
    finetune_epochs: int = 5
    lr_body: float = 2e-4
    lr_head: float = 3e-3
    batch_size: int = 50
    seed: int = 3


def read_idx(folder, split, limit):
    images = np.frombuffer(gzip.open(ROOT / folder / f"{split}-images-idx3-ubyte.gz").read(16 + limit * 784), np.uint8, offset=16)
    labels = np.frombuffer(gzip.open(ROOT / folder / f"{split}-labels-idx1-ubyte.gz").read(8 + limit), np.uint8, offset=8)
    x = torch.from_numpy(images.reshape(-1, 1, 28, 28).astype(np.float32) / 255)
    x = nn.functional.avg_pool2d(x, 2) * 2 - 0.5
    return x, torch.from_numpy(labels.astype(np.int64))


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(12, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
        self.head = nn.Linear(16 * 9, classes)

    def forward(self, x):
        return self.head(self.body(x))

    def replace_head(self, classes):
        self.head = nn.Linear(self.head.in_features, classes)


def make_optimizer(model, lr_body, lr_head):
    return torch.optim.Adam([{"params": model.body.parameters(), "lr": lr_body},
                             {"params": model.head.parameters(), "lr": lr_head}])


def run_epoch(model, loader, opt=None):
    model.train(opt is not None)
    total, hits, n = 0.0, 0, 0
    with torch.set_grad_enabled(opt is not None):
        for x, y in loader:
            out = model(x)
            loss = nn.functional.cross_entropy(out, y)
            if opt is not None:
                opt.zero_grad()
                loss.backward()
                opt.step()
            total += loss.item() * len(y)
            hits += (out.argmax(1) == y).sum().item()
            n += len(y)
    return total / n, hits / n


def garments(split, n):
    x, y = read_idx("fashion-mnist", split, n)
    keep = y < 6
    return TensorDataset(x[keep], y[keep])


def main(cfg=Config()):
    torch.manual_seed(cfg.seed)
    model = Net(10)
    digits = DataLoader(TensorDataset(*read_idx("mnist", "train", 3000)), cfg.batch_size, shuffle=True)
    opt = make_optimizer(model, 2e-3, 2e-3)
    for epoch in range(cfg.pretrain_epochs):
        print("pretrain %d loss %.4f acc %.3f" % (epoch, *run_epoch(model, digits, opt)))

    train = DataLoader(garments("train", 2000), cfg.batch_size, shuffle=True)
    test = DataLoader(garments("t10k", 1500), 200)
    model.replace_head(6)
    opt = make_optimizer(model, cfg.lr_body, cfg.lr_head)
    for epoch in range(cfg.finetune_epochs):
        loss, acc = run_epoch(model, train, opt)
        print("finetune %d loss %.4f acc %.3f" % (epoch, loss, acc))
    print("test loss %.4f acc %.3f" % run_epoch(model, test))


if __name__ == "__main__":
    main()
