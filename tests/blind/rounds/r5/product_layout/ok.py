import numpy as np
import torch
from torch import nn

CLASSES = ["mug", "plate", "lamp", "box"]
SIZE = 20


def render(label, rng):
    """A small RGB photo of a product, uint8, height x width x channel."""
    img = rng.integers(0, 110, (SIZE, SIZE, 3)).astype(np.float32)
    cy, cx = rng.uniform(7, 13, 2)
    r = rng.uniform(3.5, 6)
    yy, xx = np.mgrid[:SIZE, :SIZE]
    disc = (yy - cy) ** 2 + (xx - cx) ** 2 < r ** 2
    square = (abs(yy - cy) < r * 0.85) & (abs(xx - cx) < r * 0.85)
    shape = disc if label % 2 == 0 else square
    tint = np.array([150, 90, 90] if label < 2 else [90, 105, 150]) + rng.normal(0, 25, 3)
    img[shape] = 0.6 * img[shape] + 0.8 * tint
    return np.clip(img, 0, 255).astype(np.uint8)


def catalogue(n, rng):
    labels = rng.integers(0, len(CLASSES), n)
    return np.stack([render(l, rng) for l in labels]), labels


class Prep:
    def __init__(self, images):
        self.mean = images.mean() / 255
        self.std = images.std() / 255

    def __call__(self, images):
        x = torch.from_numpy(images).float().div(255).sub(self.mean).div(self.std)
        return x.permute(0, 3, 1, 2).contiguous()


class ProductNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(12, 24, 3, padding=1), nn.ReLU(), nn.AdaptiveMaxPool2d(1))
        self.head = nn.Linear(24, len(CLASSES))

    def forward(self, x):
        return self.head(self.features(x).flatten(1))


def accuracy(model, x, y):
    model.eval()
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()


torch.manual_seed(1)
rng = np.random.default_rng(1)
train_images, train_labels = catalogue(1200, rng)
valid_images, valid_labels = catalogue(500, rng)
prep = Prep(train_images)
x_train, x_valid = prep(train_images), prep(valid_images)
y_train, y_valid = torch.from_numpy(train_labels), torch.from_numpy(valid_labels)
model = ProductNet()
opt = torch.optim.Adam(model.parameters(), lr=4e-3)
for epoch in range(8):
    model.train()
    total = 0.0
    for idx in torch.randperm(len(x_train)).split(64):
        loss = nn.functional.cross_entropy(model(x_train[idx]), y_train[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(idx)
    print(f"epoch {epoch} loss {total / len(x_train):.3f} valid acc {accuracy(model, x_valid, y_valid):.3f}")
print(f"final valid accuracy {accuracy(model, x_valid, y_valid):.3f}")
