"""Garment classifier from image shards."""
import sys
from pathlib import Path
import numpy as np
import torch
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset

EPOCHS, BATCH, LR = 12, 56, 3e-3


class Shard(Dataset):
    def __init__(self, path):
        with np.load(path) as z:
            self.images = torch.from_numpy(z["images"]).float().div(255).sub(0.29).div(0.33).unsqueeze(1)
            self.labels = torch.from_numpy(z["labels"])

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.images[i], self.labels[i]


def conv_block(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(), nn.MaxPool2d(2))


def build(n_classes):
    return nn.Sequential(conv_block(1, 12), conv_block(12, 24), nn.Flatten(), nn.Dropout(0.3), nn.Linear(24 * 9, n_classes))


def run_epoch(model, loader, opt=None):
    training = opt is not None
    model.train(training)
    loss_sum = hits = n = 0
    with torch.set_grad_enabled(training):
        for x, y in loader:
            logits = model(x)
            loss = nn.functional.cross_entropy(logits, y)
            if training:
                opt.zero_grad()
                loss.backward()
                opt.step()
            loss_sum += loss.item() * len(y)
            hits += (logits.argmax(1) == y).sum().item()
            n += len(y)
    return loss_sum / n, hits / n


def main():
    folder = Path(sys.argv[1])
    torch.manual_seed(12)
    shards = [Shard(p) for p in sorted(folder.glob("train_*.npz"))]
    train_set, val_set = ConcatDataset(shards), Shard(folder / "val.npz")
    n_classes = int(max(s.labels.max() for s in shards)) + 1
    print(f"{len(shards)} shards, {len(train_set)} images, {n_classes} classes")
    train = DataLoader(train_set, batch_size=BATCH, shuffle=True)
    val = DataLoader(val_set, batch_size=200)
    model = build(n_classes)
    opt = torch.optim.Adam(model.parameters(), lr=LR)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, EPOCHS, eta_min=1e-4)
    for epoch in range(EPOCHS):
        tl, ta = run_epoch(model, train, opt)
        vl, va = run_epoch(model, val)
        sched.step()
        print(f"epoch {epoch}  train {tl:.3f}/{ta:.3f}  val {vl:.3f}/{va:.3f}")


if __name__ == "__main__":
    main()
