"""Binary segmentation of cell nuclei with a small U-Net, flip augmentation, BCE + Dice."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

SIZE = 24


def draw_cells(n, seed):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:SIZE, 0:SIZE]
    images = rng.normal(0.3, 0.12, (n, SIZE, SIZE))
    masks = np.zeros((n, SIZE, SIZE))
    for i in range(n):
        for _ in range(rng.integers(1, 4)):
            cy, cx = rng.uniform(3, SIZE - 3, 2)
            a, b = rng.uniform(2, 4, 2)
            inside = ((yy - cy) / a) ** 2 + ((xx - cx) / b) ** 2 < 1
            masks[i][inside] = 1
            images[i][inside] += rng.uniform(0.2, 0.45)
    return images.astype(np.float32), masks.astype(np.float32)


def hflip(a):
    return a.flip(-1)


def vflip(a):
    return a.flip(-2)


class Compose:
    def __init__(self, ops, p=0.5):
        self.ops, self.p = ops, p

    def __call__(self, image, mask):
        for op in self.ops:
            if torch.rand(()) < self.p:
                image, mask = op(image), op(mask)
        return image, mask


class CellDataset(Dataset):
    def __init__(self, images, masks, augment=None):
        self.images, self.masks, self.augment = torch.from_numpy(images), torch.from_numpy(masks), augment

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        image, mask = self.images[i][None], self.masks[i][None]
        if self.augment:
            image, mask = self.augment(image, mask)
        return image, mask


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, c=8):
        super().__init__()
        self.down1, self.down2 = block(1, c), block(c, 2 * c)
        self.mid = block(2 * c, 2 * c)
        self.up = block(4 * c, c)
        self.final = nn.Conv2d(2 * c, 1, 1)

    def forward(self, x):
        d1 = self.down1(x)
        d2 = self.down2(F.max_pool2d(d1, 2))
        m = F.interpolate(self.mid(F.max_pool2d(d2, 2)), scale_factor=2)
        u = F.interpolate(self.up(torch.cat([d2, m], 1)), scale_factor=2)
        return self.final(torch.cat([d1, u], 1))


def seg_loss(logits, mask):
    p = torch.sigmoid(logits)
    inter = (p * mask).sum((1, 2, 3))
    dice = 1 - (2 * inter + 1) / (p.sum((1, 2, 3)) + mask.sum((1, 2, 3)) + 1)
    return F.binary_cross_entropy_with_logits(logits, mask) + dice.mean()


@torch.no_grad()
def mean_iou(model, loader):
    model.eval()
    ious, losses = [], []
    for image, mask in loader:
        logits = model(image)
        losses.append(seg_loss(logits, mask).item())
        hit = logits > 0
        inter = (hit & (mask > 0.5)).sum((1, 2, 3)).float()
        union = (hit | (mask > 0.5)).sum((1, 2, 3)).float()
        ious.append(inter / union.clamp(min=1))
    return torch.cat(ious).mean().item(), float(np.mean(losses))


if __name__ == "__main__":
    torch.manual_seed(8)
    train = CellDataset(*draw_cells(240, 1), augment=Compose([hflip, vflip]))
    valid = CellDataset(*draw_cells(120, 2))
    train_loader = DataLoader(train, batch_size=16, shuffle=True)
    valid_loader = DataLoader(valid, batch_size=60)
    net = UNet()
    optimizer = torch.optim.Adam(net.parameters(), lr=4e-3)
    for epoch in range(10):
        net.train()
        losses = []
        for image, mask in train_loader:
            optimizer.zero_grad()
            loss = seg_loss(net(image), mask)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        iou, vloss = mean_iou(net, valid_loader)
        print(f"epoch {epoch:2d}  train {np.mean(losses):.4f}  valid {vloss:.4f}  IoU {iou:.4f}")
