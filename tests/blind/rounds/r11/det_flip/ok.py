"""Single-object detector on drawn scenes: one shape per image, box + class."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

SIZE = 40


def draw(rng):
    img = rng.normal(0, 0.15, (SIZE, SIZE)).astype(np.float32)
    w, h = rng.integers(7, 18, 2)
    x1, y1 = rng.integers(0, SIZE - w), rng.integers(0, SIZE - h)
    kind = int(rng.integers(0, 3))
    yy, xx = np.mgrid[:h, :w]
    if kind == 0:
        m = np.ones((h, w), bool)
    elif kind == 1:
        m = ((xx - (w - 1) / 2) / (w / 2)) ** 2 + ((yy - (h - 1) / 2) / (h / 2)) ** 2 <= 1
    else:
        m = (xx < 2) | (xx >= w - 2) | (yy < 2) | (yy >= h - 2)
    img[y1:y1 + h, x1:x1 + w] += m * rng.uniform(0.7, 1.2)
    return img, np.array([x1, y1, x1 + w, y1 + h], np.float32), kind


class Scenes(Dataset):
    def __init__(self, n, seed, train):
        rng = np.random.default_rng(seed)
        items = [draw(rng) for _ in range(n)]
        self.images = torch.from_numpy(np.stack([i[0] for i in items]))[:, None]
        self.boxes = torch.from_numpy(np.stack([i[1] for i in items]))
        self.kinds = torch.tensor([i[2] for i in items])
        self.train = train

    def __len__(self):
        return len(self.kinds)

    def __getitem__(self, i):
        image, box, kind = self.images[i], self.boxes[i].clone(), self.kinds[i]
        if self.train and torch.rand(1).item() < 0.5:
            image = image.flip(-1)
            box[[0, 2]] = SIZE - box[[2, 0]]
        return image, box, kind


def to_cxcywh(b):
    return torch.stack([(b[:, 0] + b[:, 2]) / 2, (b[:, 1] + b[:, 3]) / 2, b[:, 2] - b[:, 0], b[:, 3] - b[:, 1]], 1) / SIZE


def to_xyxy(c):
    c = c * SIZE
    return torch.stack([c[:, 0] - c[:, 2] / 2, c[:, 1] - c[:, 3] / 2, c[:, 0] + c[:, 2] / 2, c[:, 1] + c[:, 3] / 2], 1)


def pair_iou(a, b):
    wh = (torch.minimum(a[:, 2:], b[:, 2:]) - torch.maximum(a[:, :2], b[:, :2])).clamp(min=0)
    inter = wh.prod(1)
    area = lambda t: (t[:, 2:] - t[:, :2]).clamp(min=0).prod(1)
    return inter / (area(a) + area(b) - inter + 1e-6)


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        ch = [1, 12, 24, 32]
        layers = []
        for a, b in zip(ch, ch[1:]):
            layers += [nn.Conv2d(a, b, 3, padding=1, stride=2, bias=False), nn.BatchNorm2d(b), nn.ReLU()]
        self.body = nn.Sequential(*layers, nn.Flatten(), nn.Linear(32 * 25, 96), nn.ReLU())
        self.box = nn.Linear(96, 4)
        self.cls = nn.Linear(96, 3)

    def forward(self, x):
        h = self.body(x)
        return self.box(h), self.cls(h)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    ious, hits, n = 0.0, 0, 0
    for x, b, k in loader:
        pb, pk = model(x)
        ious += pair_iou(to_xyxy(pb), b).sum().item()
        hits += (pk.argmax(1) == k).sum().item()
        n += len(k)
    model.train()
    return ious / n, hits / n


def main():
    torch.manual_seed(11)
    train = DataLoader(Scenes(2400, 0, True), batch_size=48, shuffle=True)
    val = DataLoader(Scenes(400, 1, False), batch_size=200)
    test = DataLoader(Scenes(600, 2, False), batch_size=200)
    model = Detector()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    epochs = 10
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=4e-3, total_steps=epochs * len(train))
    for epoch in range(epochs):
        run_box = run_cls = 0.0
        for x, b, k in train:
            pb, pk = model(x)
            l_box = F.smooth_l1_loss(pb, to_cxcywh(b), beta=0.05)
            l_cls = F.cross_entropy(pk, k)
            opt.zero_grad()
            (5 * l_box + l_cls).backward()
            opt.step()
            sched.step()
            run_box += l_box.item() / len(train)
            run_cls += l_cls.item() / len(train)
        iou, acc = evaluate(model, val)
        print(f"epoch {epoch} box {run_box:.4f} cls {run_cls:.4f} val_iou {iou:.3f} val_acc {acc:.3f}")
    iou, acc = evaluate(model, test)
    print(f"test mean IoU {iou:.4f} class accuracy {acc:.4f}")


if __name__ == "__main__":
    main()
