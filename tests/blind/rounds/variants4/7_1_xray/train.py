import argparse
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 12, 3, padding=1)
        self.conv2 = nn.Conv2d(12, 24, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.fc = nn.Linear(24 * 9, 48)

    def forward(self, x):
        x = self.pool(torch.relu(self.conv1(x)))
        x = self.pool(torch.relu(self.conv2(x)))
        return torch.relu(self.fc(x.flatten(1)))


class Detector(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.backbone = Backbone()
        self.head = nn.Linear(48, classes)

    def forward(self, x):
        return self.head(self.backbone(x))


def load_pretrained(model, path):
    state = torch.load(path, map_location="cpu", weights_only=True)["state_dict"]
    state = {k: v for k, v in state.items() if not k.startswith("head.")}
    model.load_state_dict(state, strict=False)
    return model


def tensors(path):
    z = np.load(path)
    return TensorDataset(torch.from_numpy(z["pixels"].astype(np.float32)).unsqueeze(1), torch.from_numpy(z["finding"].astype(np.int64)))


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    return float(torch.cat([(model(x).argmax(1) == y).float() for x, y in loader]).mean())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    torch.manual_seed(1)
    train = DataLoader(tensors(folder / "clinic_train.npz"), batch_size=16, shuffle=True)
    valid = DataLoader(tensors(folder / "clinic_valid.npz"), batch_size=250)
    model = load_pretrained(Detector(4), folder / "pretrained.pt")
    opt = torch.optim.Adam([
        {"params": model.backbone.parameters(), "lr": 2e-4},
        {"params": model.head.parameters(), "lr": 3e-3},
    ])
    for epoch in range(15):
        model.train()
        total = 0.0
        for x, y in train:
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        if epoch % 3 == 2:
            print(f"epoch {epoch + 1} loss {total / len(train):.4f} valid {accuracy(model, valid):.4f}")
    print(f"valid accuracy {accuracy(model, valid):.4f}")


if __name__ == "__main__":
    main()
