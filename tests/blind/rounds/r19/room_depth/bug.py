import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

SIZE = 32


def render_scene(rng):
    """Box-world: floor plane, back wall and a few textured boxes."""
    depth = np.full((SIZE, SIZE), 8.0, dtype=np.float32)
    horizon = rng.integers(10, 18)
    rows = np.arange(horizon, SIZE)
    depth[horizon:] = np.clip(8.0 * (SIZE - rows + 6) / (SIZE - horizon + 6), 1.5, 8.0)[:, None]
    color = np.zeros((3, SIZE, SIZE), dtype=np.float32)
    color[:, :horizon] = rng.uniform(0.3, 0.6)
    color[:, horizon:] = rng.uniform(0.3, 0.6)
    boxes = sorted([rng.uniform(1.5, 6.5) for _ in range(rng.integers(4, 8))], reverse=True)
    for z in boxes:
        s = int(np.clip(34 / z, 6, 16))
        x0, y1 = rng.integers(-s // 2, SIZE - s // 2), int(horizon + (SIZE - horizon) * min(1, 2.2 / z))
        x1, y0 = x0 + s, max(0, y1 - s)
        x0 = max(0, x0)
        depth[y0:y1, x0:x1] = z
        color[:, y0:y1, x0:x1] = rng.uniform(0.2, 1.0, (3, 1, 1))
    shade = np.exp(-0.12 * depth)
    img = color * shade + 0.03 * rng.normal(size=color.shape)
    return img.astype(np.float32), depth[None]


class SceneDataset(Dataset):
    def __init__(self, n, seed, train):
        rng = np.random.default_rng(seed)
        scenes = [render_scene(rng) for _ in range(n)]
        self.images = np.stack([s[0] for s in scenes])
        self.depths = np.stack([s[1] for s in scenes])
        self.train = train
        self.rng = np.random.default_rng(seed + 1000)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        img, depth = self.images[i], self.depths[i]
        if self.train:
            if self.rng.random() < 0.5:
                img = np.flip(img, axis=2)
            img = img * self.rng.uniform(0.9, 1.1)
        return (torch.from_numpy(np.ascontiguousarray(img, dtype=np.float32)),
                torch.from_numpy(np.ascontiguousarray(depth)))


def block(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class DepthUNet(nn.Module):
    def __init__(self, c=12):
        super().__init__()
        self.d1, self.d2, self.d3 = block(3, c), block(c, 2 * c), block(2 * c, 4 * c)
        self.u2, self.u1 = block(6 * c, 2 * c), block(3 * c, c)
        self.out = nn.Conv2d(c, 1, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        h = self.d3(F.max_pool2d(b, 2))
        h = self.u2(torch.cat([F.interpolate(h, scale_factor=2), b], 1))
        h = self.u1(torch.cat([F.interpolate(h, scale_factor=2), a], 1))
        return self.out(h)


def silog(log_pred, depth, lam=0.5):
    d = log_pred - depth.log()
    return (d ** 2).mean() - lam * (d.mean(dim=(1, 2, 3)) ** 2).mean()


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    rel, delta1, n = 0.0, 0.0, 0
    for img, depth in loader:
        pred = model(img).exp()
        ratio = torch.maximum(pred / depth, depth / pred)
        rel += ((pred - depth).abs() / depth).sum().item()
        delta1 += (ratio < 1.25).float().sum().item()
        n += depth.numel()
    return rel / n, delta1 / n


def main():
    torch.manual_seed(0)
    train_loader = DataLoader(SceneDataset(400, 1, True), batch_size=16, shuffle=True)
    val_loader = DataLoader(SceneDataset(80, 2, False), batch_size=40)
    model = DepthUNet()
    epochs = 7
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 6e-3, total_steps=epochs * len(train_loader))
    for epoch in range(epochs):
        model.train()
        running = 0.0
        for img, depth in train_loader:
            loss = silog(model(img), depth)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
            running += loss.item()
        rel, d1 = evaluate(model, val_loader)
        print(f"epoch {epoch} loss {running / len(train_loader):.4f} absrel {rel:.4f} delta1 {d1:.4f}", flush=True)
    rel, d1 = evaluate(model, val_loader)
    print(f"val absrel={rel:.4f} delta1={d1:.4f}")


if __name__ == "__main__":
    main()
