# leather hides: locate the one defect on a 32x32 tile (x1 y1 x2 y2, relative to tile size)
import numpy as np
import torch
from torch import nn

torch.manual_seed(5)
rs = np.random.RandomState(5)
S = 32
N_TRAIN, N_VAL = 1200, 300


def tile():
    base = rs.normal(0.55, 0.04) + rs.normal(0, 0.05, (S, S))
    yy, xx = np.mgrid[0:S, 0:S]
    base += 0.04 * np.sin(xx * rs.uniform(0.3, 0.8) + rs.uniform(0, 6)) * np.cos(yy * rs.uniform(0.3, 0.8))
    w, h = rs.uniform(7, 16), rs.uniform(7, 16)
    x1, y1 = rs.uniform(0, S - w), rs.uniform(0, S - h)
    cx, cy = x1 + w / 2, y1 + h / 2
    inside = ((xx + 0.5 - cx) / (w / 2)) ** 2 + ((yy + 0.5 - cy) / (h / 2)) ** 2 <= 1
    base[inside] += rs.choice([-1, 1], p=[0.7, 0.3]) * rs.uniform(0.2, 0.35)
    return base, (x1 / S, y1 / S, (x1 + w) / S, (y1 + h) / S)


pairs = [tile() for _ in range(N_TRAIN + N_VAL)]
imgs = torch.tensor(np.stack([p[0] for p in pairs]), dtype=torch.float32).unsqueeze(1)
boxes = torch.tensor([p[1] for p in pairs], dtype=torch.float32)
tr_img, va_img = imgs[:N_TRAIN], imgs[N_TRAIN:]
tr_box, va_box = boxes[:N_TRAIN], boxes[N_TRAIN:]
mu, sd = tr_img.mean(), tr_img.std()
tr_img, va_img = (tr_img - mu) / sd, (va_img - mu) / sd


def augment(im, bx):
    im, bx = im.clone(), bx.clone()
    f = torch.rand(len(im)) < 0.5
    im[f] = im[f].flip(-1)
    b = bx[f]
    b[:, [0, 2]] = 1.0 - b[:, [2, 0]]
    bx[f] = b
    im = im * (1 + 0.1 * torch.randn(len(im), 1, 1, 1))
    return im, bx


def box_iou(p, g):
    lt = torch.maximum(p[:, :2], g[:, :2])
    rb = torch.minimum(p[:, 2:], g[:, 2:])
    inter = (rb - lt).clamp(min=0).prod(1)
    area_p = (p[:, 2:] - p[:, :2]).clamp(min=0).prod(1)
    area_g = (g[:, 2:] - g[:, :2]).prod(1)
    return inter / (area_p + area_g - inter)


def conv(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, stride=2, padding=1), nn.BatchNorm2d(o), nn.ReLU())


net = nn.Sequential(conv(1, 12), conv(12, 24), conv(24, 32),
                    nn.Flatten(), nn.Linear(32 * 16, 64), nn.ReLU(), nn.Linear(64, 4), nn.Sigmoid())
optim = torch.optim.Adam(net.parameters(), lr=2e-3)
EPOCHS, BS = 14, 40
sched = torch.optim.lr_scheduler.CosineAnnealingLR(optim, EPOCHS * (N_TRAIN // BS))
crit = nn.SmoothL1Loss(beta=0.05)

for epoch in range(EPOCHS):
    net.train()
    run = 0.0
    for idx in torch.randperm(N_TRAIN).split(BS):
        x, t = augment(tr_img[idx], tr_box[idx])
        optim.zero_grad()
        loss = crit(net(x), t)
        loss.backward()
        optim.step()
        sched.step()
        run += loss.item() * len(idx)
    net.eval()
    with torch.no_grad():
        iou = box_iou(net(va_img), va_box)
    print('epoch %2d | loss %.4f | val mean IoU %.3f | IoU>0.5 %.3f'
          % (epoch, run / N_TRAIN, iou.mean().item(), (iou > 0.5).float().mean().item()))
