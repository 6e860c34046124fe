# Semantic segmentation of fluorescence images: background / cytoplasm / nucleus
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SIZE, CLASSES = 32, 3


def field_of_view(rng):
    yy, xx = np.mgrid[0:SIZE, 0:SIZE]
    img = np.full((SIZE, SIZE), rng.uniform(0.05, 0.15))
    lab = np.zeros((SIZE, SIZE), np.int64)
    for _ in range(rng.integers(2, 5)):
        cy, cx = rng.uniform(4, SIZE - 4, 2)
        r, e, th = rng.uniform(4.5, 7), rng.uniform(0.7, 1.3), rng.uniform(0, np.pi)
        u = (xx - cx) * np.cos(th) + (yy - cy) * np.sin(th)
        v = -(xx - cx) * np.sin(th) + (yy - cy) * np.cos(th)
        d = np.sqrt((u * e) ** 2 + (v / e) ** 2)
        cyto, nuc = d < r, d < r * rng.uniform(0.35, 0.5)
        img[cyto] = rng.uniform(0.3, 0.45)
        lab[cyto] = 1
        img[nuc] = rng.uniform(0.6, 0.8)
        lab[nuc] = 2
    img = img + 0.1 * np.sin(xx / 9 + rng.uniform(0, 6)) + rng.normal(0, 0.09, img.shape)
    return img.astype(np.float32), lab


def make(n, seed):
    rng = np.random.default_rng(seed)
    ims, labs = zip(*(field_of_view(rng) for _ in range(n)))
    return torch.from_numpy(np.stack(ims)).unsqueeze(1), torch.from_numpy(np.stack(labs))


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())


class SmallUNet(nn.Module):
    def __init__(self, w=10):
        super().__init__()
        self.down1 = block(1, w)
        self.down2 = block(w, 2 * w)
        self.up = block(3 * w, w)
        self.head = nn.Conv2d(w, CLASSES, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        b = F.interpolate(b, scale_factor=2, mode="nearest")
        return self.head(self.up(torch.cat([a, b], 1)))


def pixel_loss(logits, labels, weight):
    flat = logits.reshape(-1, CLASSES)
    return F.cross_entropy(flat, labels.reshape(-1), weight=weight)


@torch.no_grad()
def mean_iou(net, x, y):
    net.eval()
    pred = net(x).argmax(1)
    ious = []
    for c in range(CLASSES):
        inter = ((pred == c) & (y == c)).sum().item()
        union = ((pred == c) | (y == c)).sum().item()
        ious.append(inter / max(union, 1))
    net.train()
    return sum(ious) / CLASSES, ious


torch.manual_seed(6)
x, y = make(240, 1)
xv, yv = make(80, 2)
freq = torch.bincount(y.flatten(), minlength=CLASSES).float()
weight = (freq.sum() / freq).sqrt()
weight = weight / weight.mean()
net = SmallUNet()
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
for step in range(1, 121):
    ix = torch.randint(0, len(x), (12,))
    xb, yb = x[ix], y[ix]
    if torch.rand(()) < 0.5:
        xb, yb = xb.flip(-1), yb.flip(-1)
    loss = pixel_loss(net(xb), yb, weight)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(f"step {step}: loss {loss.item():.4f}")
miou, per = mean_iou(net, xv, yv)
print(f"validation mIoU {miou:.4f}  (background {per[0]:.3f}, cytoplasm {per[1]:.3f}, nucleus {per[2]:.3f})")
