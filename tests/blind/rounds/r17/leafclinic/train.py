"""Fine-tune a small pretrained network on the photos of our own greenhouse."""
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class LeafNet(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        self.backbone = nn.Sequential()
        widths = [3, 16, 24, 32]
        for i in range(3):
            self.backbone.add_module(f"conv{i}", nn.Conv2d(widths[i], widths[i + 1], 3, padding=1))
            self.backbone.add_module(f"bn{i}", nn.BatchNorm2d(widths[i + 1]))
            self.backbone.add_module(f"act{i}", nn.ReLU())
            self.backbone.add_module(f"pool{i}", nn.MaxPool2d(2))
        self.classifier = nn.Linear(widths[-1], n_classes)

    def forward(self, x):
        return self.classifier(self.backbone(x).mean(dim=(2, 3)))


def load_photos(path):
    z = np.load(path)
    x = torch.from_numpy(z["images"]).permute(0, 3, 1, 2).float() / 255
    return (x - 0.45) / 0.2, torch.from_numpy(z["labels"]).long()


def accuracy(model, x, y):
    model.eval()
    with torch.no_grad():
        acc = (model(x).argmax(1) == y).float().mean().item()
    model.train()
    return acc


def main(root):
    torch.manual_seed(0)
    classes = (root / "classes.txt").read_text().split()
    xtr, ytr = load_photos(root / "photos_train.npz")
    xte, yte = load_photos(root / "photos_test.npz")

    model = LeafNet(len(classes))
    state = torch.load(root / "plantnet_small.pt")["state_dict"]
    # the classifier of the checkpoint belongs to other classes
    model.load_state_dict(state, strict=False)

    optimizer = torch.optim.Adam([
        {"params": model.backbone.parameters(), "lr": 2e-4},
        {"params": model.classifier.parameters(), "lr": 1e-2},
    ])
    loader = DataLoader(TensorDataset(xtr, ytr), batch_size=16, shuffle=True)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(20):
        total = 0.0
        for x, y in loader:
            if torch.rand(()) < 0.5:
                x = x.flip(3)
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(x)
        if epoch % 4 == 3:
            print(f"epoch {epoch + 1}: loss {total / len(xtr):.4f}")
    print(f"test accuracy {accuracy(model, xte, yte):.4f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
