"""Nodule detector on 16x16 radiographs."""
import json
import pathlib
import sys

import numpy as np
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset


class Films(Dataset):
    def __init__(self, folder, split):
        self.images = np.load(folder / f"{split}_x.npy")
        self.labels = np.load(folder / f"{split}_y.npy")
        stats = json.loads((folder / "stats.json").read_text())
        self.mean, self.std = stats["mean"], stats["std"]

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        img = torch.from_numpy(self.images[index]).float().div(255.0)
        img = (img - self.mean) / self.std
        return img.unsqueeze(0), int(self.labels[index])


class NoduleNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 5, padding=2)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.fc = nn.Linear(16 * 4 * 4, 2)

    def forward(self, x):
        x = self.pool(torch.relu(self.conv1(x)))
        x = self.pool(torch.relu(self.conv2(x)))
        return self.fc(x.flatten(1))


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    torch.manual_seed(9)
    train_loader = DataLoader(Films(folder, "train"), batch_size=50, shuffle=True)
    test_loader = DataLoader(Films(folder, "test"), batch_size=100)
    model = NoduleNet()
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(8):
        model.train()
        running = 0.0
        for images, labels in train_loader:
            optimizer.zero_grad()
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step()
            running += loss.item()
        print(f"epoch {epoch + 1} loss {running / len(train_loader):.4f}")
    model.eval()
    correct = 0
    with torch.no_grad():
        for images, labels in test_loader:
            correct += (model(images).argmax(1) == labels).sum().item()
    print(f"test accuracy {correct / len(test_loader.dataset):.3f}")
