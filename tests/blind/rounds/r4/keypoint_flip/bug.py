import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

SIZE = 24
NAMES = ["left_eye", "right_eye", "nose", "left_mouth", "right_mouth"]
FLIP_PAIRS = [(0, 1), (3, 4)]


def render(rng):
    """A face: two eyes (bright blobs), nose, mouth corners; coordinates in [0, 1]."""
    cx, cy, s = rng.uniform(0.4, 0.6), rng.uniform(0.4, 0.6), rng.uniform(0.22, 0.32)
    tilt = rng.uniform(-0.25, 0.25)
    base = np.array([[-1, -0.7], [1, -0.7], [0, 0.1], [-0.6, 0.8], [0.6, 0.8]]) * s
    rot = np.array([[np.cos(tilt), -np.sin(tilt)], [np.sin(tilt), np.cos(tilt)]])
    pts = base @ rot.T + [cx, cy]
    grid = (np.arange(SIZE) + 0.5) / SIZE
    img = np.zeros((SIZE, SIZE), np.float32)
    for (px, py), amp in zip(pts, [1.0, 1.0, 0.6, 0.8, 0.8]):
        img += amp * np.exp(-((grid[None, :] - px) ** 2 + (grid[:, None] - py) ** 2) / 0.003)
    img += 0.05 * rng.standard_normal((SIZE, SIZE))
    return img.astype(np.float32), pts.astype(np.float32)


class Faces(Dataset):
    def __init__(self, n, seed, augment):
        rng = np.random.default_rng(seed)
        pairs = [render(rng) for _ in range(n)]
        self.images = torch.from_numpy(np.stack([p[0] for p in pairs]))[:, None]
        self.points = torch.from_numpy(np.stack([p[1] for p in pairs]))
        self.augment = augment

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        img, pts = self.images[i], self.points[i].clone()
        if self.augment and torch.rand(()) < 0.5:
            img = img.flip(-1)
            pts[:, 0] = 1.0 - pts[:, 0]
        return img, pts


class KeypointNet(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.ReLU(),
                                      nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten())
        self.head = nn.Sequential(nn.Linear(16 * 36, 64), nn.ReLU(), nn.Linear(64, 2 * k))

    def forward(self, x):
        return self.head(self.features(x)).view(len(x), -1, 2) + 0.5


@torch.no_grad()
def pck(model, loader, thr=0.06):
    model.eval()
    hits = []
    for img, pts in loader:
        hits.append(((model(img) - pts).norm(dim=-1) < thr).float())
    return torch.cat(hits).mean(0)


def main():
    torch.manual_seed(0)
    train = DataLoader(Faces(900, 1, augment=True), batch_size=32, shuffle=True)
    val = DataLoader(Faces(200, 2, augment=False), batch_size=100)
    model = KeypointNet(len(NAMES))
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-4)
    for epoch in range(12):
        model.train()
        running = 0.0
        for img, pts in train:
            loss = nn.functional.smooth_l1_loss(model(img), pts, beta=0.05)
            opt.zero_grad()
            loss.backward()
            opt.step()
            running += loss.item()
        print(f"epoch {epoch} loss {running / len(train):.4f} val PCK {pck(model, val).mean():.3f}")
    per = pck(model, val)
    print(" ".join(f"{n}={v:.2f}" for n, v in zip(NAMES, per.tolist())), f"mean PCK {per.mean():.3f}")


if __name__ == "__main__":
    main()
