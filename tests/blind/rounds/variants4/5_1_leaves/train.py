import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset


class Shard(Dataset):
    def __init__(self, stem):
        self.images = np.load(f"{stem}_images.npy")
        self.labels = np.loadtxt(f"{stem}_labels.csv", delimiter=",", skiprows=1, usecols=1, dtype=np.int64)
        assert len(self.images) == len(self.labels)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return torch.from_numpy(self.images[i].astype(np.float32) / 255.0 - 0.5)[None], int(self.labels[i])


class LeafNet(nn.Module):
    def __init__(self, n_classes=4):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        )
        self.classifier = nn.Linear(16 * 16, n_classes)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


@torch.no_grad()
def accuracy(net, loader):
    net.eval()
    right = sum((net(x).argmax(1) == y).sum().item() for x, y in loader)
    return right / len(loader.dataset)


def main():
    folder = Path(sys.argv[1])
    torch.manual_seed(4)
    stems = sorted(str(p)[: -len("_images.npy")] for p in folder.glob("plot*_images.npy"))
    train = ConcatDataset([Shard(s) for s in stems])
    valid = Shard(folder / "holdout")
    train_loader = DataLoader(train, batch_size=32, shuffle=True)
    valid_loader = DataLoader(valid, batch_size=200)
    net = LeafNet()
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    print(f"{len(stems)} shards, {len(train)} leaves, {len(valid)} held out")
    for epoch in range(5):
        net.train()
        losses = []
        for x, y in train_loader:
            loss = nn.functional.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        print(f"epoch {epoch} loss {sum(losses) / len(losses):.4f} held-out accuracy {accuracy(net, valid_loader):.4f}")
    print(f"held-out accuracy {accuracy(net, valid_loader):.4f}")


if __name__ == "__main__":
    main()
