"""Few-shot digit reading on top of a pretrained encoder."""
import pathlib
import sys

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Reader(nn.Module):
    def __init__(self, embed=12, classes=10):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(32, 32, 3, stride=2, padding=1), nn.ReLU(),
            nn.Flatten(), nn.Linear(128, 32), nn.ReLU(), nn.Linear(32, embed))
        self.head = nn.Linear(embed, classes)

    def forward(self, x):
        return self.head(self.encoder(x))


def load_pretrained(model, path):
    """The checkpoint also holds a projector we do not need, and has no head."""
    ckpt = torch.load(path, map_location="cpu", weights_only=True)
    model.load_state_dict(ckpt["model"], strict=False)
    print(f"loaded {path} ({ckpt['arch']}, epoch {ckpt['epoch']})")


def jitter(x):
    dx = int(torch.randint(-1, 2, (1,)))
    return torch.roll(x, dx, dims=3) + 0.03 * torch.randn_like(x)


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    n = hit = 0
    for x, y in loader:
        hit += (model(x).argmax(1) == y).sum().item()
        n += len(y)
    return hit / n


def main(folder):
    torch.manual_seed(7)
    folder = pathlib.Path(folder)
    z = np.load(folder / "digits.npz")
    few = TensorDataset(torch.from_numpy(z["x_few"]), torch.from_numpy(z["y_few"]))
    test = TensorDataset(torch.from_numpy(z["x_test"]), torch.from_numpy(z["y_test"]))
    few_loader = DataLoader(few, batch_size=20, shuffle=True)
    test_loader = DataLoader(test, batch_size=256)

    model = Reader()
    load_pretrained(model, folder / "pretrained.pt")
    optimizer = torch.optim.AdamW([
        {"params": model.encoder.parameters(), "lr": 1e-4},
        {"params": model.head.parameters(), "lr": 1e-2},
    ], weight_decay=1e-3)
    epochs = 200
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for x, y in few_loader:
            loss = nn.functional.cross_entropy(model(jitter(x)), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        scheduler.step()
        if (epoch + 1) % 20 == 0:
            print(f"epoch {epoch + 1:3d} loss {total / len(few_loader):.4f} test acc {accuracy(model, test_loader):.4f}")


if __name__ == "__main__":
    main(sys.argv[1])
