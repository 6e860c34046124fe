import math
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
np.random.seed(0)

SCALE = 2
HR = 32


def weave(rng, yy, xx):
    out = np.zeros((HR, HR))
    for _ in range(3):
        wl, th, ph = rng.uniform(4.6, 12), rng.uniform(0, np.pi), rng.uniform(0, 2 * np.pi)
        out += rng.uniform(0.05, 0.13) * np.sin(2 * np.pi / wl * (xx * np.cos(th) + yy * np.sin(th)) + ph)
    return out


def draw(rng):
    yy, xx = np.mgrid[0:HR, 0:HR]
    th, c = rng.uniform(0, 2 * np.pi), rng.uniform(-8, 8)
    side = 1 / (1 + np.exp(-((xx - HR / 2) * np.cos(th) + (yy - HR / 2) * np.sin(th) - c)))
    left = rng.uniform(0.35, 0.65) + weave(rng, yy, xx)
    right = rng.uniform(0.35, 0.65) + weave(rng, yy, xx)
    return np.clip(side * left + (1 - side) * right, 0, 1).astype(np.float32)


def make_images(n, seed):
    rng = np.random.default_rng(seed)
    hr = torch.from_numpy(np.stack([draw(rng) for _ in range(n)])).unsqueeze(1)
    lr = F.avg_pool2d(hr, SCALE)
    return lr, hr


class ResBlock(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.c1 = nn.Conv2d(ch, ch, 3, padding=1)
        self.c2 = nn.Conv2d(ch, ch, 3, padding=1)

    def forward(self, x):
        return x + self.c2(F.relu(self.c1(x)))


class Upsampler(nn.Module):
    def __init__(self, ch, out_ch, r):
        super().__init__()
        self.r, self.out_ch = r, out_ch
        self.conv = nn.Conv2d(ch, out_ch * r * r, 3, padding=1)

    def forward(self, x):
        b, _, h, w = x.shape
        x = self.conv(x).view(b, self.out_ch, self.r, self.r, h, w)
        x = x.permute(0, 1, 2, 4, 3, 5)
        return x.reshape(b, self.out_ch, h * self.r, w * self.r)


class SRNet(nn.Module):
    def __init__(self, ch=16, blocks=2):
        super().__init__()
        self.head = nn.Conv2d(1, ch, 3, padding=1)
        self.body = nn.Sequential(*[ResBlock(ch) for _ in range(blocks)])
        self.up = Upsampler(ch, 1, SCALE)

    def forward(self, lr):
        base = F.interpolate(lr, scale_factor=SCALE, mode="bicubic", align_corners=False)
        f = self.head(lr - 0.5)
        return base + self.up(f + self.body(f))


def psnr(a, b):
    return -10 * math.log10(F.mse_loss(a.clamp(0, 1), b).item())


def augment(lr, hr):
    if np.random.rand() < 0.5:
        lr, hr = lr.flip(-1), hr.flip(-1)
    if np.random.rand() < 0.5:
        lr, hr = lr.flip(-2), hr.flip(-2)
    return lr, hr


lr_tr, hr_tr = make_images(900, 1)
lr_va, hr_va = make_images(150, 2)
lr_te, hr_te = make_images(300, 3)
bic = F.interpolate(lr_te, scale_factor=SCALE, mode="bicubic", align_corners=False)
print("bicubic psnr %.2f dB" % psnr(bic, hr_te))

net = SRNet()
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
EPOCHS, BS = 7, 16
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, EPOCHS * (len(lr_tr) // BS))
for epoch in range(EPOCHS):
    net.train()
    perm = torch.randperm(len(lr_tr))
    run = 0.0
    steps = len(lr_tr) // BS
    for i in range(steps):
        idx = perm[i * BS:(i + 1) * BS]
        x, y = augment(lr_tr[idx], hr_tr[idx])
        loss = F.mse_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        run += loss.item()
    net.eval()
    with torch.no_grad():
        v = psnr(net(lr_va), hr_va)
    print("epoch %d  mse %.5f  val psnr %.2f" % (epoch + 1, run / steps, v))

net.eval()
with torch.no_grad():
    print("test_psnr %.3f" % psnr(net(lr_te), hr_te))
