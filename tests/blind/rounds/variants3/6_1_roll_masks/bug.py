import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(16)
S = 20


def scenes(n):
    img = 0.5 * torch.randn(n, 1, S, S)
    seg = torch.zeros(n, S, S, dtype=torch.long)
    for i in range(n):
        for kind in (1, 2):
            h, w = (3, 8) if kind == 1 else (8, 3)
            top = int(torch.randint(S - h, (1,)))
            left = int(torch.randint(S - w, (1,)))
            seg[i, top : top + h, left : left + w] = kind
    img[:, 0] += torch.where(seg > 0, 1.5, 0.0)
    return img, seg


def jitter_pair(img, seg, reach=5):
    def moved(t):
        dy, dx = (int(d) for d in torch.randint(-reach, reach + 1, (2,)))
        return torch.roll(t, (dy, dx), dims=(-2, -1))

    return moved(img), moved(seg)


def augment(img, seg):
    pairs = [jitter_pair(a, b) for a, b in zip(img, seg)]
    return torch.stack([a for a, _ in pairs]), torch.stack([b for _, b in pairs])


class UNetish(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(1, 12, 3, padding=1)
        self.b = nn.Conv2d(12, 24, 3, padding=1)
        self.c = nn.Conv2d(24, 24, 5, padding=2)
        self.d = nn.Conv2d(36, 3, 3, padding=1)

    def forward(self, x):
        top = F.relu(self.a(x))
        low = F.relu(self.c(F.relu(self.b(F.max_pool2d(top, 2)))))
        up = F.interpolate(low, scale_factor=2, mode="nearest")
        return self.d(torch.cat([top, up], 1))


def mean_iou(pred, seg):
    vals = []
    for k in (1, 2):
        inter = ((pred == k) & (seg == k)).sum()
        vals.append(inter / ((pred == k) | (seg == k)).sum().clamp_min(1))
    return torch.stack(vals).mean().item()


train_img, train_seg = scenes(320)
valid_img, valid_seg = scenes(100)
net = UNetish()
opt = torch.optim.Adam(net.parameters(), lr=5e-3)

for epoch in range(10):
    net.train()
    for rows in torch.randperm(len(train_img)).split(32):
        img, seg = augment(train_img[rows], train_seg[rows])
        loss = F.cross_entropy(net(img), seg)
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        out = net(valid_img)
    print(f"epoch {epoch}  train {loss.item():.4f}  valid {F.cross_entropy(out, valid_seg).item():.4f}  "
          f"mean iou {mean_iou(out.argmax(1), valid_seg):.4f}")
