"""Motion deblurring of small scenes (signs, discs, bars). Residual conv net, one-cycle schedule."""
import math
import torch
from torch import nn
import torch.nn.functional as F

SIZE = 24


def scenes(n, g):
    yy, xx = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    img = 0.2 + 0.3 * torch.rand(n, 1, 1, generator=g) + 0.2 * (xx / SIZE - 0.5) * torch.randn(n, 1, 1, generator=g)
    for _ in range(4):
        cx, cy = (torch.rand(2, n, 1, 1, generator=g) * SIZE)
        r = 2 + 5 * torch.rand(n, 1, 1, generator=g)
        v = torch.rand(n, 1, 1, generator=g)
        disc = (xx - cx) ** 2 + (yy - cy) ** 2 < r ** 2
        bar = ((xx - cx).abs() < r) & ((yy - cy).abs() < r * 0.4)
        img = torch.where(torch.where(torch.rand(n, 1, 1, generator=g) < 0.5, disc, bar), v, img)
    return img.clamp(0, 1).unsqueeze(1)


def kernel():
    k = torch.zeros(5, 5)
    for i, w in zip(range(5), (1.0, 1.2, 1.0, 0.8, 0.6)):
        k[3 if i < 2 else (2 if i < 4 else 1), i] = w
    return (k / k.sum())[None, None]


def blur(x, g):
    y = F.conv2d(F.pad(x, (2, 2, 2, 2), mode="reflect"), kernel())
    return (y + 0.01 * torch.randn(y.shape, generator=g)).clamp(0, 1)


class Deblur(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, ch, 5, padding=2), nn.ReLU(), nn.Conv2d(ch, ch, 3, padding=1), nn.ReLU(),
                                 nn.Conv2d(ch, ch, 3, padding=1), nn.ReLU(), nn.Conv2d(ch, 1, 3, padding=1))

    def forward(self, x):
        return x + self.net(x)


def psnr(a, b):
    return (-10 * torch.log10(((a - b) ** 2).mean((1, 2, 3)))).mean().item()


g = torch.Generator().manual_seed(6)
torch.manual_seed(6)
sharp = scenes(1200, g)
soft = blur(sharp, g)
sharp_t = scenes(200, g)
soft_t = blur(sharp_t, g)

model = Deblur()
opt = torch.optim.Adam(model.parameters())
epochs, bs = 6, 24
per_epoch = math.ceil(len(sharp) / bs)
sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=4e-3, total_steps=epochs * per_epoch)
for ep in range(epochs):
    order = torch.randperm(len(sharp))
    total = 0.0
    for s in range(0, len(order), bs):
        b = order[s:s + bs]
        loss = F.l1_loss(model(soft[b]), sharp[b])
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
    sched.step()
    print(f"epoch {ep} l1 {total / per_epoch:.4f}")
with torch.no_grad():
    print(f"blurred input {psnr(soft_t, sharp_t):.2f} dB, restored {psnr(model(soft_t), sharp_t):.2f} dB")
