"""2-D pose regression on rendered stick figures (frontal view)."""
import time
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

JOINTS = ["head", "l_shoulder", "r_shoulder", "l_hand", "r_hand", "hip", "l_foot", "r_foot"]
BONES = [(0, 1), (0, 2), (1, 3), (2, 4), (1, 2), (1, 5), (2, 5), (5, 6), (5, 7)]
SIZE = 32


def sample_pose(rng):
    cx, cy, s = rng.uniform(13, 19), rng.uniform(12, 15), rng.uniform(0.85, 1.15)
    rot = rng.normal(0, 0.08)
    left, right = rng.uniform(-1.3, 1.3, 2)
    lf, rf = rng.uniform(0.05, 0.6, 2)
    p = np.array([[0, -7], [3, -3], [-3, -3],
                  [3 + 6 * np.cos(left), -3 + 6 * np.sin(left)],
                  [-3 - 6 * np.cos(right), -3 + 6 * np.sin(right)],
                  [0, 4], [9 * np.sin(lf), 4 + 9 * np.cos(lf)], [-9 * np.sin(rf), 4 + 9 * np.cos(rf)]])
    c, si = np.cos(rot), np.sin(rot)
    p = s * p @ np.array([[c, si], [-si, c]]) + [cx, cy]
    return p.clip(0, SIZE - 1)


def draw(points, rng):
    yy, xx = np.mgrid[0:SIZE, 0:SIZE]
    img = np.zeros((SIZE, SIZE))
    for a, b in BONES:
        pa, d = points[a], points[b] - points[a]
        t = np.clip(((xx - pa[0]) * d[0] + (yy - pa[1]) * d[1]) / (d @ d + 1e-6), 0, 1)
        dist2 = (xx - pa[0] - t * d[0]) ** 2 + (yy - pa[1] - t * d[1]) ** 2
        img = np.maximum(img, np.exp(-dist2 / 0.9))
    img = np.maximum(img, np.exp(-((xx - points[0, 0]) ** 2 + (yy - points[0, 1]) ** 2) / 5))
    return (img + rng.normal(0, 0.15, img.shape)).astype(np.float32)


class StickFigures(Dataset):
    def __init__(self, n, seed, flip_p=0.0):
        rng = np.random.default_rng(seed)
        poses = [sample_pose(rng) for _ in range(n)]
        self.images = torch.from_numpy(np.stack([draw(p, rng) for p in poses]))[:, None]
        self.points = torch.tensor(np.stack(poses), dtype=torch.float32)
        self.flip_p = flip_p

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        img, pts = self.images[i], self.points[i].clone()
        if torch.rand(()) < self.flip_p:
            img = img.flip(-1)
            pts[:, 0] = SIZE - 1 - pts[:, 0]
            pts = pts[[0, 2, 1, 4, 3, 5, 7, 6]]
        return img, pts / (SIZE - 1)


def conv(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, stride=2, padding=1), nn.BatchNorm2d(o), nn.ReLU())


class PoseNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(conv(1, 16), conv(16, 32), conv(32, 64))
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(64 * 16, 128), nn.ReLU(), nn.Linear(128, 2 * len(JOINTS)))

    def forward(self, x):
        return self.head(self.trunk(x)).view(-1, len(JOINTS), 2)


@torch.no_grad()
def evaluate(net, loader, radius=2.0):
    net.eval()
    dist = torch.cat([((net(x) - y) * (SIZE - 1)).norm(dim=-1) for x, y in loader])
    return dist.mean().item(), (dist < radius).float().mean(0)


if __name__ == "__main__":
    torch.manual_seed(21)
    train_dl = DataLoader(StickFigures(1200, 0, flip_p=0.5), batch_size=32, shuffle=True)
    val_dl = DataLoader(StickFigures(400, 1), batch_size=200)
    net = PoseNet()
    optim = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-4)
    epochs = 20
    sched = torch.optim.lr_scheduler.OneCycleLR(optim, 4e-3, total_steps=epochs * len(train_dl))
    tic = time.time()
    for epoch in range(epochs):
        net.train()
        running = 0.0
        for x, y in train_dl:
            loss = nn.functional.smooth_l1_loss(net(x), y, beta=0.05)
            optim.zero_grad()
            loss.backward()
            optim.step()
            sched.step()
            running += loss.item()
        if (epoch + 1) % 4 == 0:
            err, pck = evaluate(net, val_dl)
            print(f"{epoch + 1:3d} loss {running / len(train_dl):.5f} val err {err:.2f}px PCK@2 {pck.mean():.3f} ({time.time() - tic:.0f}s)")
    err, pck = evaluate(net, val_dl)
    for name, v in zip(JOINTS, pck.tolist()):
        print(f"  {name:<11} {v:.3f}")
    print(f"final PCK@2 {pck.mean():.4f}, mean error {err:.3f}px")
