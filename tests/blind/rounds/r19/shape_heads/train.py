"""Shape classification with few labelled clouds: linear probe on a pretrained point encoder."""
import os
import sys

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

N_CLASSES = 8


class Clouds(Dataset):
    def __init__(self, path, train):
        z = np.load(path)
        self.points = torch.from_numpy(z["points"].astype(np.float32))
        self.label = torch.from_numpy(z["label"].astype(np.int64))
        self.train = train

    def __len__(self):
        return len(self.label)

    def __getitem__(self, i):
        p = self.points[i]
        if self.train:
            q, _ = torch.linalg.qr(torch.randn(3, 3))
            p = p @ q + 0.01 * torch.randn_like(p)
        return p, self.label[i]


class PointEncoder(nn.Module):
    def __init__(self, dim=96):
        super().__init__()
        self.local = nn.Sequential(nn.Linear(3, 48), nn.ReLU(), nn.Linear(48, 96), nn.ReLU(), nn.Linear(96, dim))
        self.mix = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim), nn.ReLU())

    def forward(self, p):
        return self.mix(self.local(p).amax(1))


class ShapeNet(nn.Module):
    def __init__(self, dim=96):
        super().__init__()
        self.encoder = PointEncoder(dim)
        self.classifier = nn.Linear(dim, N_CLASSES)

    def forward(self, p):
        return self.classifier(self.encoder(p))


def load_pretrained(model, path):
    checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    model.load_state_dict(checkpoint["model"], strict=False)
    for p in model.encoder.parameters():
        p.requires_grad_(False)
    print(f"encoder from {path} (pretraining epoch {checkpoint['epoch']})")


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    return np.mean(np.concatenate([(model(p).argmax(1) == y).numpy() for p, y in loader]))


def main(folder):
    torch.manual_seed(3)
    train = DataLoader(Clouds(os.path.join(folder, "train.npz"), True), batch_size=24, shuffle=True)
    test = DataLoader(Clouds(os.path.join(folder, "test.npz"), False), batch_size=200)
    model = ShapeNet()
    load_pretrained(model, os.path.join(folder, "pretrained.pt"))
    opt = torch.optim.Adam(model.classifier.parameters(), lr=5e-3)
    for epoch in range(40):
        model.train()
        losses = []
        for p, y in train:
            loss = nn.functional.cross_entropy(model(p), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        if epoch % 5 == 4:
            print(f"epoch {epoch + 1:3d} loss {np.mean(losses):.3f} test accuracy {accuracy(model, test):.3f}", flush=True)
    print(f"final test accuracy {accuracy(model, test):.4f}")


if __name__ == "__main__":
    main(sys.argv[1])
