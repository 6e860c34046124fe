"""Land cover of four-band satellite tiles, with an averaged copy of the weights for scoring."""
import json

import numpy as np
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


class LandCover:
    """Tiles held in memory, normalised per band, with own batching."""

    def __init__(self, split, mean, std):
        blob = np.load(f"data/{split}.npz")
        self.x = (torch.from_numpy(blob["tiles"]) - mean) / std
        self.y = torch.from_numpy(blob["label"]).long()

    def __len__(self):
        return len(self.y)

    def batches(self, size, gen=None):
        order = torch.arange(len(self)) if gen is None else torch.randperm(len(self), generator=gen)
        for idx in order.split(size):
            yield self.x[idx], self.y[idx]


def network(n_classes):
    return nn.Sequential(
        nn.Conv2d(4, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 24, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2),
        nn.Flatten(), nn.Linear(96, 32), nn.ReLU(), nn.Linear(32, n_classes))


def augment(x, gen):
    k = int(torch.randint(0, 4, (1,), generator=gen))
    x = torch.rot90(x, k, dims=(2, 3))
    return x.flip(3) if torch.rand(1, generator=gen).item() < 0.5 else x


@torch.no_grad()
def score(model, data, n_classes):
    model.eval()
    matrix = torch.zeros(n_classes, n_classes)
    loss = 0.0
    for x, y in data.batches(200):
        out = model(x)
        loss += nn.functional.cross_entropy(out, y, reduction="sum").item()
        matrix += torch.bincount(y * n_classes + out.argmax(1), minlength=n_classes ** 2).view(n_classes, n_classes)
    iou = matrix.diag() / (matrix.sum(0) + matrix.sum(1) - matrix.diag()).clamp(min=1)
    return loss / len(data), (matrix.diag().sum() / matrix.sum()).item(), iou.mean().item()


def main(epochs=12, batch=50, lr=2e-3):
    torch.set_num_threads(1)
    torch.manual_seed(23)
    gen = torch.Generator().manual_seed(23)
    with open("data/stats.json") as fh:
        stats = json.load(fh)
    mean = torch.tensor(stats["mean"]).view(1, 4, 1, 1)
    std = torch.tensor(stats["std"]).view(1, 4, 1, 1)
    classes = stats["classes"]
    train, val = LandCover("train", mean, std), LandCover("val", mean, std)
    print(f"{len(train)} train tiles, {len(val)} val tiles, {len(classes)} classes")

    model = network(len(classes))
    ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.97))
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for x, y in train.batches(batch, gen):
            loss = nn.functional.cross_entropy(model(augment(x, gen)), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            ema.update_parameters(model)
            total += loss.item() * len(y)
        vl, acc, miou = score(ema, val, len(classes))
        print(f"epoch {epoch:2d} train {total / len(train):.4f} val {vl:.4f} acc {acc:.4f} mIoU {miou:.4f}")


if __name__ == "__main__":
    main()
