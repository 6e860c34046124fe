# Weave inspection: pretrain an encoder on catalogue fabrics, fine-tune on a few shots of new ones.
import os
import tempfile

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

SIZE = 20


def render(angle, freq, rng):
    yy, xx = np.mgrid[0:SIZE, 0:SIZE] / SIZE
    a = angle + rng.normal(0, 0.05)
    wave = np.sin(2 * np.pi * freq * (xx * np.cos(a) + yy * np.sin(a)) + rng.uniform(0, 2 * np.pi))
    img = rng.uniform(0.4, 0.9) * wave + rng.normal(0, 0.9, (SIZE, SIZE))
    return img.astype(np.float32)


def make_set(classes, per_class, rng):
    xs, ys = [], []
    for label, (angle, freq) in enumerate(classes):
        for _ in range(per_class):
            xs.append(render(angle, freq, rng))
            ys.append(label)
    return TensorDataset(torch.from_numpy(np.stack(xs)[:, None]), torch.tensor(ys))


class Encoder(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, width, 5, padding=2, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1, bias=False), nn.BatchNorm2d(2 * width), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.dim = 2 * width

    def forward(self, x):
        return self.features(x)


class Classifier(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        self.encoder = Encoder()
        self.head = nn.Linear(self.encoder.dim, n_classes)

    def forward(self, x):
        return self.head(self.encoder(x))


def accuracy(model, loader):
    model.eval()
    good = total = 0
    with torch.no_grad():
        for x, y in loader:
            good += (model(x).argmax(1) == y).sum().item()
            total += len(y)
    return good / total


def fit(model, train, val, epochs, params, batch_size, tag):
    loader = DataLoader(train, batch_size=batch_size, shuffle=True)
    val_loader = DataLoader(val, batch_size=256)
    opt = torch.optim.AdamW(params, weight_decay=1e-3)
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(epochs):
        model.train()
        if not any(p.requires_grad for p in model.encoder.parameters()):
            model.encoder.eval()
        total = 0.0
        for x, y in loader:
            opt.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            opt.step()
            total += loss.item() * len(y)
        if epoch % max(1, epochs // 5) == 0 or epoch == epochs - 1:
            print(f"[{tag}] epoch {epoch + 1:3d} loss {total / len(train):.4f} val acc {accuracy(model, val_loader):.3f}")
    return accuracy(model, val_loader)


def pretrain(path, rng):
    catalogue = [(np.pi * k / 8, f) for k in range(8) for f in (2.0, 3.2, 4.8)]
    train, val = make_set(catalogue, 120, rng), make_set(catalogue, 15, rng)
    model = Classifier(len(catalogue))
    fit(model, train, val, 6, [{"params": model.parameters(), "lr": 4e-3}], 64, "pretrain")
    torch.save({"model": model.state_dict(), "classes": len(catalogue)}, path)


def load_encoder(path):
    state = torch.load(path, map_location="cpu")["model"]
    encoder = Encoder()
    encoder.load_state_dict(state, strict=False)
    return encoder


def main():
    torch.manual_seed(11)
    rng = np.random.default_rng(11)
    path = os.path.join(tempfile.mkdtemp(), "weave_encoder.pt")
    pretrain(path, rng)

    new_fabrics = [(np.pi * (k + 0.5) / 8, f) for k in range(0, 8, 2) for f in (2.5, 4.0)]
    train, test = make_set(new_fabrics, 12, rng), make_set(new_fabrics, 100, rng)
    model = Classifier(len(new_fabrics))
    model.encoder = load_encoder(path)
    model.encoder.requires_grad_(False)
    acc = fit(model, train, test, 20, [{"params": model.head.parameters(), "lr": 5e-3}], 16, "finetune")
    print(f"test accuracy on new fabrics {acc:.4f} (chance {1 / len(new_fabrics):.3f})")


if __name__ == "__main__":
    main()
