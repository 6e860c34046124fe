"""Tyre inspection. Learns wear patterns on plenty of lab images, then a linear probe for a new defect set."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SIZE = 16


def pattern(kind, rng):
    y, x = np.mgrid[0:SIZE, 0:SIZE]
    phase = rng.uniform(0, 2 * np.pi)
    freq = 0.6 + 0.35 * (kind % 3)
    angle = (kind // 3) * np.pi / 4 + rng.normal(0, 0.08)
    wave = np.sin(freq * (x * np.cos(angle) + y * np.sin(angle)) + phase)
    return wave + 1.1 * rng.standard_normal((SIZE, SIZE))


def images(kinds, n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, len(kinds), n)
    x = np.stack([pattern(kinds[k], rng) for k in y]).astype(np.float32)
    return torch.from_numpy(x)[:, None], torch.from_numpy(y)


class TyreNet(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveMaxPool2d(2), nn.Flatten(),
        )
        self.head = nn.Linear(32 * 4, n_classes)

    def forward(self, x):
        return self.head(self.backbone(x))


def run_epochs(model, opt, x, y, epochs, batch):
    for _ in range(epochs):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(batch):
            loss = F.cross_entropy(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
    return total / len(x)


@torch.no_grad()
def accuracy(model, x, y):
    model.eval()
    return (model(x).argmax(1) == y).float().mean().item()


def pretrain(model):
    x, y = images([0, 2, 3, 5, 6, 8, 9, 11], 1600, seed=100)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    loss = run_epochs(model, opt, x, y, epochs=5, batch=50)
    print(f"lab images: loss {loss:.4f}  train acc {accuracy(model, x, y):.4f}")


def adapt(model, n_classes):
    for p in model.backbone.parameters():
        p.requires_grad_(False)
    model.head = nn.Linear(model.head.in_features, n_classes)
    trainable = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.Adam(trainable, lr=5e-3)
    return opt


def main():
    torch.manual_seed(31)
    model = TyreNet(8)
    pretrain(model)

    new_kinds = [1, 4, 7, 10]
    x_tr, y_tr = images(new_kinds, 400, seed=200)
    x_va, y_va = images(new_kinds, 800, seed=201)
    opt = adapt(model, len(new_kinds))
    for stage in range(5):
        loss = run_epochs(model, opt, x_tr, y_tr, epochs=4, batch=50)
        print(f"probe round {stage}: loss {loss:.4f}  valid acc {accuracy(model, x_va, y_va):.4f}")
    print(f"new defects, validation accuracy: {accuracy(model, x_va, y_va):.4f}")


if __name__ == "__main__":
    main()
