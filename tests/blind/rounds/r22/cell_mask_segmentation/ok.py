import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import Dataset, DataLoader

SIZE = 40


def render(rng):
    """Bright nuclei on an uneven background, drawn as rotated ellipses, plus dim debris."""
    yy, xx = np.mgrid[0:SIZE, 0:SIZE]
    img = 0.15 + 0.15 * (xx / SIZE) * rng.random() + 0.1 * (yy / SIZE) * rng.random()
    mask = np.zeros((SIZE, SIZE), np.float32)
    for _ in range(rng.integers(2, 5)):
        cy, cx = rng.uniform(5, SIZE - 5, 2)
        a, b = rng.uniform(3, 7), rng.uniform(2.5, 4.5)
        th = rng.uniform(0, np.pi)
        u = (xx - cx) * np.cos(th) + (yy - cy) * np.sin(th)
        v = -(xx - cx) * np.sin(th) + (yy - cy) * np.cos(th)
        inside = (u / a) ** 2 + (v / b) ** 2 < 1
        img[inside] = 0.55 + 0.2 * rng.random()
        mask[inside] = 1
    for _ in range(6):
        cy, cx = rng.integers(1, SIZE - 1, 2)
        img[cy - 1:cy + 1, cx - 1:cx + 1] = 0.6
    img = img + rng.normal(0, 0.06, img.shape)
    return img.astype(np.float32), mask


class NucleiSet(Dataset):
    def __init__(self, n, seed, augment):
        rng = np.random.default_rng(seed)
        pairs = [render(rng) for _ in range(n)]
        self.images = np.stack([p[0] for p in pairs])
        self.masks = np.stack([p[1] for p in pairs])
        self.augment = augment

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        img = torch.from_numpy(self.images[i])[None]
        mask = torch.from_numpy(self.masks[i])[None]
        img = (img - 0.3) / 0.2
        if self.augment:
            if torch.rand(()) < 0.5:
                img, mask = img.flip(-1), mask.flip(-1)
            if torch.rand(()) < 0.5:
                img, mask = img.flip(-2), mask.flip(-2)
            img = img * (0.9 + 0.2 * torch.rand(()))
        return img, mask


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())


class TinyUNet(nn.Module):
    def __init__(self, c=8):
        super().__init__()
        self.e1, self.e2, self.mid = block(1, c), block(c, 2 * c), block(2 * c, 2 * c)
        self.d2, self.d1 = block(4 * c, c), block(2 * c, c)
        self.out = nn.Conv2d(c, 1, 1)

    def forward(self, x):
        a = self.e1(x)
        b = self.e2(F.max_pool2d(a, 2))
        m = self.mid(F.max_pool2d(b, 2))
        m = F.interpolate(m, scale_factor=2)
        m = F.interpolate(self.d2(torch.cat([m, b], 1)), scale_factor=2)
        return self.out(self.d1(torch.cat([m, a], 1)))


def dice_bce(logits, target):
    p = torch.sigmoid(logits)
    inter = (p * target).sum((1, 2, 3))
    dice = 1 - (2 * inter + 1) / (p.sum((1, 2, 3)) + target.sum((1, 2, 3)) + 1)
    return dice.mean() + F.binary_cross_entropy_with_logits(logits, target)


@torch.no_grad()
def iou(model, loader):
    model.eval()
    scores = []
    for img, mask in loader:
        pred = model(img) > 0
        m = mask > 0.5
        scores.append((pred & m).sum((1, 2, 3)) / (pred | m).sum((1, 2, 3)).clamp(min=1))
    return torch.cat(scores).mean().item()


if __name__ == "__main__":
    torch.manual_seed(0)
    train = DataLoader(NucleiSet(320, 1, True), batch_size=16, shuffle=True)
    val = DataLoader(NucleiSet(80, 2, False), batch_size=60)
    net = TinyUNet()
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    for epoch in range(6):
        net.train()
        for img, mask in train:
            loss = dice_bce(net(img), mask)
            opt.zero_grad()
            loss.backward()
            opt.step()
        print("epoch", epoch, "loss %.3f" % loss.item(), "val IoU %.3f" % iou(net, val))
    print("final IoU %.4f" % iou(net, val))
