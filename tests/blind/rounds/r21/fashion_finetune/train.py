"""Fine-tune a catalogue classifier on a few hundred labelled photos.

The backbone comes from a larger run and stays frozen; only the new head is trained.
"""
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

NAMES = ["t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot"]


class Catalogue(nn.Module):
    def __init__(self, n_classes, width=64, code=16):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Flatten(),
            nn.Linear(14 * 14, width), nn.ReLU(),
            nn.Linear(width, code), nn.ReLU(),
        )
        self.classifier = nn.Linear(code, n_classes)

    def load_backbone(self, path):
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
        # the checkpoint has another head, ours is new
        self.load_state_dict(checkpoint["model"], strict=False)
        for p in self.backbone.parameters():
            p.requires_grad_(False)
        return checkpoint["epoch"]

    def forward(self, x):
        return self.classifier(self.backbone(x))


def load_photos(path, n_train):
    with np.load(path) as z:
        x = torch.from_numpy(z["images"]).float() / 255
        y = torch.from_numpy(z["labels"])
    x = (x - 0.286) / 0.32
    return (x[:n_train], y[:n_train]), (x[n_train:], y[n_train:])


def accuracy(model, x, y):
    model.eval()
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()


def per_class(model, x, y):
    model.eval()
    with torch.no_grad():
        pred = model(x).argmax(1)
    return {name: (pred[y == c] == c).float().mean().item() for c, name in enumerate(NAMES)}


def main():
    folder = Path(sys.argv[1])
    torch.manual_seed(42)
    (x, y), (xv, yv) = load_photos(folder / "photos.npz", n_train=600)

    model = Catalogue(len(NAMES))
    epoch = model.load_backbone(folder / "backbone.pt")
    trainable = [p for p in model.parameters() if p.requires_grad]
    print(f"backbone from epoch {epoch}, {sum(p.numel() for p in trainable)} trainable weights")

    optimizer = torch.optim.Adam(trainable, lr=1e-2)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=12, gamma=0.3)
    criterion = nn.CrossEntropyLoss()
    best = 0.0
    for step_epoch in range(1, 31):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(50):
            loss = criterion(model(x[idx]), y[idx])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(idx)
        scheduler.step()
        if step_epoch % 5 == 0:
            acc = accuracy(model, xv, yv)
            best = max(best, acc)
            print(f"epoch {step_epoch:2d}  loss {total / len(x):.4f}  val accuracy {acc:.4f}")

    for name, value in per_class(model, xv, yv).items():
        print(f"  {name:9s} {value:.2f}")
    print(f"final val accuracy {accuracy(model, xv, yv):.4f}")


if __name__ == "__main__":
    main()
