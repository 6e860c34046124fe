"""Multi-label tagging of recipes from ingredient word counts."""
import json
import os
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class RecipeDataset(Dataset):
    def __init__(self, path):
        z = np.load(path)
        self.words = torch.from_numpy(z["words"].astype(np.float32)).log1p()
        self.tags = torch.from_numpy(z["tags"].astype(np.float32))

    def __len__(self):
        return len(self.tags)

    def __getitem__(self, i):
        return self.words[i], self.tags[i]


class Tagger(nn.Module):
    def __init__(self, vocab, n_tags, hidden=96):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(vocab, hidden), nn.LayerNorm(hidden), nn.ReLU(), nn.Dropout(0.3))
        self.decode = nn.Linear(hidden, n_tags)

    def forward(self, x):
        return self.decode(self.encode(x))


def f1_scores(model, loader):
    model.eval()
    tp = pred = real = 0
    with torch.no_grad():
        for x, y in loader:
            p = (model(x).sigmoid() > 0.5).float()
            tp = tp + (p * y).sum(0)
            pred = pred + p.sum(0)
            real = real + y.sum(0)
    per_tag = 2 * tp / (pred + real).clamp(min=1)
    micro = 2 * tp.sum() / (pred.sum() + real.sum())
    return micro.item(), per_tag


def main(folder):
    torch.manual_seed(33)
    names = json.load(open(os.path.join(folder, "tags.json")))
    train, val = (RecipeDataset(os.path.join(folder, s + ".npz")) for s in ("train", "val"))
    train_loader = DataLoader(train, batch_size=32, shuffle=True)
    val_loader = DataLoader(val, batch_size=200)
    model = Tagger(train.words.shape[1], len(names))
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    epochs = 20
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 4e-3, epochs=epochs, steps_per_epoch=len(train_loader))
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for x, y in train_loader:
            loss = F.binary_cross_entropy_with_logits(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            total += loss.item() * len(y)
        if epoch % 4 == 3:
            print(f"epoch {epoch + 1:2d}  bce {total / len(train):.4f}  val micro-F1 {f1_scores(model, val_loader)[0]:.4f}")
    micro, per_tag = f1_scores(model, val_loader)
    for name, v in zip(names, per_tag.tolist()):
        print(f"  {name:<12} {v:.3f}")
    print(f"val micro-F1 {micro:.4f} macro-F1 {per_tag.mean():.4f}")


if __name__ == "__main__":
    main(sys.argv[1])
