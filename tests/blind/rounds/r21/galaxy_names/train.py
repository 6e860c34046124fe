"""Galaxy morphology from small stamps, tested against the volunteers' names."""
import json
import os
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def load(folder):
    with open(os.path.join(folder, "classes.json")) as f:
        names = json.load(f)
    with np.load(os.path.join(folder, "train.npz")) as z:
        x, y = z["image"], z["label"]
    with np.load(os.path.join(folder, "test.npz")) as z:
        xt, given = z["image"], z["name"]
    index = {name: i for i, name in enumerate(names)}
    yt = np.array([index[str(n)] for n in given])
    mean, std = x.mean(), x.std()
    as_image = lambda a: torch.from_numpy((a - mean) / std)[:, None]
    return names, as_image(x), torch.from_numpy(y), as_image(xt), torch.from_numpy(yt)


def turn(x):
    """Galaxies have no up: random quarter turns and mirror images."""
    x = torch.rot90(x, int(torch.randint(4, (1,))), dims=(2, 3))
    return x.flip(3) if torch.rand(1) < 0.5 else x


class Morphology(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv = nn.ModuleList([nn.Conv2d(1, 12, 3, padding=1), nn.Conv2d(12, 24, 3, padding=1)])
        self.norm = nn.ModuleList([nn.GroupNorm(3, 12), nn.GroupNorm(4, 24)])
        self.fc = nn.Linear(24 * 16, 48)
        self.out = nn.Linear(48, classes)

    def forward(self, x):
        for conv, norm in zip(self.conv, self.norm):
            x = F.max_pool2d(F.relu(norm(conv(x))), 2)
        return self.out(F.relu(self.fc(x.flatten(1))))


def report(model, x, y, names):
    model.eval()
    with torch.no_grad():
        pred = model(x).argmax(1)
    for i, name in enumerate(names):
        print(f"  {name:11s} recall {(pred[y == i] == i).float().mean().item():.3f}")
    return (pred == y).float().mean().item()


def main():
    torch.manual_seed(12)
    names, x, y, xt, yt = load(sys.argv[1])
    print(len(x), "stamps of", len(names), "kinds")
    model = Morphology(len(names))
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-3)
    epochs, size = 6, 50
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=4e-3, total_steps=epochs * (len(x) // size))
    for epoch in range(epochs):
        model.train()
        loss_sum = steps = 0
        for idx in torch.randperm(len(x)).split(size):
            if len(idx) < size:
                continue
            loss = F.cross_entropy(model(turn(x[idx])), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            loss_sum += loss.item()
            steps += 1
        print(f"epoch {epoch + 1}: train loss {loss_sum / steps:.4f}")
    print(f"accuracy against the volunteers: {report(model, xt, yt, names):.4f}")


if __name__ == "__main__":
    main()
