"""Joint regression on small front-view figures."""
import argparse
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

JOINTS = ["head", "l_hand", "r_hand", "hip", "l_foot", "r_foot"]
SWAP = [0, 2, 1, 3, 5, 4]
LIMBS = [(0, 3), (0, 1), (0, 2), (3, 4), (3, 5)]
RES = 24


def render(n, seed):
    """Figures facing the camera: the left side of the body lies on the right of the image."""
    rng = np.random.default_rng(seed)
    kp = np.zeros((n, len(JOINTS), 2), np.float32)
    cx = rng.uniform(10, 14, n)
    kp[:, 0] = np.stack([cx, rng.uniform(3, 6, n)], 1)
    kp[:, 3] = np.stack([cx + rng.normal(0, 0.5, n), rng.uniform(12, 14, n)], 1)
    for j, sgn in ((1, 1), (2, -1)):
        kp[:, j] = np.stack([cx + sgn * rng.uniform(4, 8, n), rng.uniform(4, 14, n)], 1)
    for j, sgn in ((4, 1), (5, -1)):
        kp[:, j] = np.stack([cx + sgn * rng.uniform(1.5, 5, n), rng.uniform(18, 22, n)], 1)
    img = np.zeros((n, RES, RES), np.float32)
    yy, xx = np.mgrid[:RES, :RES].astype(np.float32)
    for a, b in LIMBS:
        for s in np.linspace(0, 1, 8):
            p = (1 - s) * kp[:, a] + s * kp[:, b]
            d = (xx - p[:, 0, None, None]) ** 2 + (yy - p[:, 1, None, None]) ** 2
            img = np.maximum(img, np.exp(-d / 0.9))
    img += rng.normal(0, 0.08, img.shape).astype(np.float32)
    return torch.from_numpy(img).float().unsqueeze(1), torch.from_numpy(kp / (RES - 1))


def augment(img, kp):
    flip = torch.rand(len(img)) < 0.5
    img, kp = img.clone(), kp.clone()
    img[flip] = img[flip].flip(-1)
    mirrored = kp[flip][:, SWAP]
    mirrored[..., 0] = 1.0 - mirrored[..., 0]
    kp[flip] = mirrored
    gain = 1 + 0.1 * torch.randn(len(img), 1, 1, 1)
    return img * gain, kp


class PoseNet(nn.Module):
    def __init__(self, k=len(JOINTS)):
        super().__init__()
        self.c1 = nn.Conv2d(1, 16, 3, padding=1)
        self.b1 = nn.BatchNorm2d(16)
        self.c2 = nn.Conv2d(16, 24, 3, padding=1)
        self.b2 = nn.BatchNorm2d(24)
        self.fc1 = nn.Linear(24 * 6 * 6, 96)
        self.fc2 = nn.Linear(96, 2 * k)
        self.k = k

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.b1(self.c1(x))), 2)
        x = F.max_pool2d(F.relu(self.b2(self.c2(x))), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1)))).view(-1, self.k, 2)


@torch.no_grad()
def evaluate(net, img, kp, thr=0.08):
    net.eval()
    dist = (net(img) - kp).norm(dim=-1)
    return dist.mean().item() * (RES - 1), (dist < thr).float().mean(0)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=11)
    ap.add_argument("--bs", type=int, default=50)
    ap.add_argument("--lr", type=float, default=2e-3)
    args = ap.parse_args()
    random.seed(0)
    torch.manual_seed(0)

    tr_img, tr_kp = render(750, seed=1)
    va_img, va_kp = render(300, seed=2)
    net = PoseNet()
    opt = torch.optim.AdamW(net.parameters(), lr=args.lr, weight_decay=1e-4)
    n_steps = args.epochs * (len(tr_img) // args.bs)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=args.lr, total_steps=n_steps)

    for epoch in range(args.epochs):
        net.train()
        order = torch.randperm(len(tr_img))
        losses = []
        for i in range(0, len(order) - args.bs + 1, args.bs):
            idx = order[i:i + args.bs]
            img, kp = augment(tr_img[idx], tr_kp[idx])
            loss = F.smooth_l1_loss(net(img), kp, beta=0.05)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            losses.append(loss.item())
        err, _ = evaluate(net, va_img, va_kp)
        print(f"epoch {epoch + 1:2d}  loss {np.mean(losses):.5f}  val error {err:.2f} px")

    err, pck = evaluate(net, va_img, va_kp)
    print("PCK " + "  ".join(f"{n} {v:.2f}" for n, v in zip(JOINTS, pck.tolist())))
    print(f"final val error {err:.2f} px, mean PCK {pck.mean():.3f}")


if __name__ == "__main__":
    main()
