"""Motion recognition from extracted video frames.

usage: python train.py FOLDER
FOLDER/<split>.npz holds the decoded frames (bit-packed masks), FOLDER/<split>.csv one row per
frame file: clip, frame file name, row in the array, label.
"""
import csv
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

SIDE = 12


def load_split(folder, split):
    frames = np.unpackbits(np.load(folder / f"{split}.npz")["frames"], axis=1)
    frames = frames.reshape(-1, SIDE, SIDE).astype(np.float32)
    clips, labels = defaultdict(list), {}
    with open(folder / f"{split}.csv") as fh:
        for row in csv.DictReader(fh):
            clips[row["clip"]].append((row["file"], int(row["row"])))
            labels[row["clip"]] = int(row["label"])
    x, y = [], []
    for name in sorted(clips):
        rows = [r for _, r in sorted(clips[name])]
        x.append(frames[rows])
        y.append(labels[name])
    return torch.from_numpy(np.stack(x)), torch.tensor(y)


class MotionNet(nn.Module):
    def __init__(self, n_classes, dim=32, hidden=40):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(SIDE * SIDE, dim), nn.ReLU())
        self.diff = nn.Sequential(nn.Linear(SIDE * SIDE, dim), nn.ReLU())
        self.rnn = nn.GRU(2 * dim, hidden, batch_first=True)
        self.head = nn.Linear(hidden, n_classes)

    def forward(self, clips):
        flat = clips.flatten(2)
        change = flat[:, 1:] - flat[:, :-1]
        feats = torch.cat([self.embed(flat[:, 1:]), self.diff(change)], -1)
        out, _ = self.rnn(feats)
        return self.head(out.mean(1))


@torch.no_grad()
def evaluate(net, loader):
    net.eval()
    hit = n = 0
    loss = 0.0
    for x, y in loader:
        logits = net(x)
        loss += nn.functional.cross_entropy(logits, y, reduction="sum").item()
        hit += (logits.argmax(1) == y).sum().item()
        n += len(y)
    return loss / n, hit / n


def main(folder):
    torch.manual_seed(0)
    train, valid = TensorDataset(*load_split(folder, "train")), TensorDataset(*load_split(folder, "valid"))
    print(f"train clips {tuple(train.tensors[0].shape)}, valid clips {tuple(valid.tensors[0].shape)}")
    train_loader = DataLoader(train, batch_size=20, shuffle=True)
    valid_loader = DataLoader(valid, batch_size=80)
    net = MotionNet(n_classes=int(train.tensors[1].max()) + 1)
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-2)
    epochs = 10
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs)
    for epoch in range(1, epochs + 1):
        net.train()
        total = 0.0
        for x, y in train_loader:
            loss = nn.functional.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 5.0)
            opt.step()
            total += loss.item()
        sched.step()
        vl, va = evaluate(net, valid_loader)
        print(f"epoch {epoch:2d}  train loss {total / len(train_loader):.4f}  valid loss {vl:.4f}  valid acc {va:.3f}")
    print(f"final valid accuracy {va:.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
