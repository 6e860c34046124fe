"""Few-example classification of stripe scans with a pretrained, frozen backbone."""
import os
import sys
import torch
from torch import nn


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 5, padding=2)
        self.conv2 = nn.Conv2d(16, 16, 3, padding=1)

    def forward(self, x):
        h = torch.relu(self.conv1(x))
        return torch.relu(self.conv2(h)).amax((2, 3))


class ScanModel(nn.Module):
    def __init__(self, weights):
        super().__init__()
        self.backbone = Backbone()
        self.backbone.load_state_dict(weights, strict=False)
        for p in self.backbone.parameters():
            p.requires_grad_(False)
        self.head = nn.Sequential(nn.BatchNorm1d(16), nn.Linear(16, 8))

    def forward(self, x):
        return self.head(self.backbone(x))


def load(folder, name):
    return torch.load(os.path.join(folder, name), map_location="cpu")


class Runner:
    def __init__(self, folder):
        torch.manual_seed(2)
        self.model = ScanModel(load(folder, "backbone.pt")["state_dict"])
        self.train_data = load(folder, "train.pt")
        self.test_data = load(folder, "test.pt")
        trainable = [p for p in self.model.parameters() if p.requires_grad]
        print("trainable values:", sum(p.numel() for p in trainable))
        self.optimizer = torch.optim.Adam(trainable, lr=1e-2)
        self.loss = nn.CrossEntropyLoss(label_smoothing=0.05)

    def train_epoch(self):
        self.model.train()
        x, y = self.train_data["x"], self.train_data["y"]
        total = 0.0
        for idx in torch.randperm(len(x)).split(24):
            self.optimizer.zero_grad()
            loss = self.loss(self.model(x[idx]), y[idx])
            loss.backward()
            self.optimizer.step()
            total += loss.item() * len(idx)
        return total / len(x)

    @torch.no_grad()
    def test(self):
        self.model.eval()
        return (self.model(self.test_data["x"]).argmax(1) == self.test_data["y"]).float().mean().item()


def main():
    runner = Runner(sys.argv[1])
    for epoch in range(40):
        value = runner.train_epoch()
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1} loss {value:.3f}")
    print(f"test accuracy {runner.test():.4f}")


if __name__ == "__main__":
    main()
