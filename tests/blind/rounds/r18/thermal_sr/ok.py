"""2x super-resolution of small thermal camera frames (sensor pixels integrate over their area)."""
import math
import torch
import torch.nn.functional as F
from torch import nn

SCALE, SIDE = 2, 24


def scenes(n, seed):
    g = torch.Generator().manual_seed(seed)
    yy, xx = torch.meshgrid(torch.arange(SIDE).float(), torch.arange(SIDE).float(), indexing="ij")
    img = 0.3 + 0.1 * torch.randn(n, 1, 1, generator=g) + 0.004 * torch.randn(n, 1, 1, generator=g) * yy
    for _ in range(5):
        cx, cy, w, h, a, amp = torch.rand(6, n, 1, 1, generator=g)
        a = a * math.pi
        u = (xx - cx * SIDE) * a.cos() + (yy - cy * SIDE) * a.sin()
        v = (yy - cy * SIDE) * a.cos() - (xx - cx * SIDE) * a.sin()
        box = torch.sigmoid(4 * (2 + 6 * w - u.abs())) * torch.sigmoid(4 * (0.7 + 2 * h - v.abs()))
        img = img + (amp - 0.4) * box
    return img.clamp(0, 1)[:, None]


def sensor(hr):
    return F.avg_pool2d(hr, SCALE)


class Pairs:
    def __init__(self, hr):
        self.hr = hr
        self.lr = sensor(hr)

    def batch(self, size):
        i = torch.randint(0, len(self.hr), (size,))
        lr, hr = self.lr[i], self.hr[i]
        if torch.rand(()) < 0.5:
            lr, hr = lr.transpose(2, 3), hr.transpose(2, 3)
        return lr, hr


class Upscaler(nn.Module):
    def __init__(self, c=24):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, c, 3, padding=1, padding_mode="replicate"), nn.ReLU(), nn.Conv2d(c, c, 3, padding=1), nn.ReLU(),
                                  nn.Conv2d(c, c, 3, padding=1), nn.ReLU(), nn.Conv2d(c, SCALE ** 2, 3, padding=1))
        self.shuffle = nn.PixelShuffle(SCALE)

    def forward(self, lr):
        coarse = F.interpolate(lr, scale_factor=SCALE, mode="bicubic", align_corners=False)
        return coarse + self.shuffle(self.body((lr - 0.4) * 4))


def psnr(a, b):
    return (-10 * torch.log10(((a - b) ** 2).mean((1, 2, 3)).clamp_min(1e-10))).mean().item()


torch.manual_seed(8)
pairs = Pairs(scenes(700, 1))
held_hr = scenes(150, 2)
held_lr = sensor(held_hr)
net = Upscaler()
opt = torch.optim.Adam(net.parameters(), lr=4e-3)
STEPS = 450
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, STEPS)
for step in range(STEPS):
    lr, hr = pairs.batch(16)
    loss = F.mse_loss(net(lr), hr)
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
    if step % 90 == 0:
        print(f"step {step} mse {loss.item():.5f}")
with torch.no_grad():
    bic = F.interpolate(held_lr, scale_factor=SCALE, mode="bicubic", align_corners=False)
    print(f"held-out PSNR {psnr(net(held_lr), held_hr):.2f} dB, bicubic {psnr(bic, held_hr):.2f} dB")
