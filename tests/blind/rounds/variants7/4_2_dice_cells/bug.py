"""Three-class segmentation (background, cytoplasm, nucleus) of synthetic micrographs."""
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

SETTINGS = dict(size=24, n_train=240, n_test=80, batch=16, epochs=10, lr=4e-3, smooth=1.0, seed=3)


def micrographs(n, size, seed):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:size, :size]
    images = np.zeros((n, 1, size, size), dtype=np.float32)
    masks = np.zeros((n, size, size), dtype=np.int64)
    for i in range(n):
        for _ in range(rng.integers(1, 4)):
            cy, cx = rng.uniform(4, size - 4, 2)
            a, b = rng.uniform(3.5, 6, 2)
            d = ((yy - cy) / a) ** 2 + ((xx - cx) / b) ** 2
            masks[i][(d < 1) & (masks[i] == 0)] = 1
            masks[i][d < 0.25] = 2
        shade = np.array([0.1, 0.45, 0.9])[masks[i]] * rng.uniform(0.8, 1.2)
        images[i, 0] = shade + rng.normal(0, 0.2, (size, size)) + 0.1 * xx / size
    return torch.from_numpy(images), torch.from_numpy(masks)


class ConvBlock(nn.Sequential):
    def __init__(self, cin, cout):
        super().__init__(nn.Conv2d(cin, cout, 3, padding=1), nn.BatchNorm2d(cout), nn.ReLU())


class TinyUNet(nn.Module):
    def __init__(self, classes=3, c=10):
        super().__init__()
        self.enc1 = ConvBlock(1, c)
        self.enc2 = ConvBlock(c, 2 * c)
        self.dec = ConvBlock(3 * c, c)
        self.out = nn.Conv2d(c, classes, 1)

    def forward(self, x):
        a = self.enc1(x)
        b = self.enc2(F.max_pool2d(a, 2))
        b = F.interpolate(b, scale_factor=2)
        return self.out(self.dec(torch.cat([a, b], 1)))


def dice_loss(logits, target, smooth):
    probs = logits.softmax(-1)
    onehot = F.one_hot(target, logits.shape[1]).permute(0, 3, 1, 2).float()
    inter = (probs * onehot).sum(dim=(0, 2, 3))
    size = probs.sum(dim=(0, 2, 3)) + onehot.sum(dim=(0, 2, 3))
    return 1 - ((2 * inter + smooth) / (size + smooth)).mean()


@torch.no_grad()
def mean_iou(model, images, masks):
    model.eval()
    pred = model(images).argmax(1)
    ious = []
    for c in range(3):
        union = ((pred == c) | (masks == c)).sum().item()
        ious.append(((pred == c) & (masks == c)).sum().item() / max(union, 1))
    return float(np.mean(ious))


def main(s):
    torch.manual_seed(s["seed"])
    images, masks = micrographs(s["n_train"], s["size"], s["seed"])
    test_images, test_masks = micrographs(s["n_test"], s["size"], s["seed"] + 1)
    mu, sd = images.mean(), images.std()
    images, test_images = (images - mu) / sd, (test_images - mu) / sd
    model = TinyUNet()
    opt = torch.optim.Adam(model.parameters(), lr=s["lr"])
    for epoch in range(s["epochs"]):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(images)).split(s["batch"]):
            loss = dice_loss(model(images[idx]), masks[idx], s["smooth"])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        print(f"epoch {epoch} loss {total / len(images):.4f}")
    print(f"mean_iou={mean_iou(model, test_images, test_masks):.4f}")


if __name__ == "__main__":
    main(SETTINGS)
