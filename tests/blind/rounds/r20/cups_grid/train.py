"""One-class grid detector (YOLO v1 style) for cups on a conveyor."""
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Conveyor(Dataset):
    def __init__(self, root, part, grid):
        self.images = np.load(root / f"{part}.npz")["images"]
        self.boxes = json.loads((root / f"{part}_boxes.json").read_text())
        self.grid = grid
        self.size = self.images.shape[-1]

    def __len__(self):
        return len(self.images)

    def encode(self, boxes):
        g, cell = self.grid, self.size / self.grid
        t = torch.zeros(5, g, g)
        for x, y, w, h in boxes:
            cx, cy = (x + w / 2) / cell, (y + h / 2) / cell
            i, j = int(cy), int(cx)
            t[:, i, j] = torch.tensor([1.0, cx - j, cy - i, (w / self.size) ** 0.5, (h / self.size) ** 0.5])
        return t

    def __getitem__(self, k):
        img = torch.from_numpy(self.images[k].astype(np.float32))[None]
        return (img - 110) / 40, self.encode(self.boxes[k])


class GridDetector(nn.Module):
    def __init__(self):
        super().__init__()
        def block(i, o, s):
            return nn.Sequential(nn.Conv2d(i, o, 3, stride=s, padding=1, bias=False), nn.BatchNorm2d(o), nn.LeakyReLU(0.1))
        self.body = nn.Sequential(block(1, 12, 2), block(12, 24, 2), block(24, 32, 1), nn.AdaptiveAvgPool2d(8),
                                  block(32, 48, 2), block(48, 48, 1))
        self.head = nn.Conv2d(48, 5, 1)

    def forward(self, x):
        out = self.head(self.body(x))
        return torch.cat([out[:, :1], torch.sigmoid(out[:, 1:])], 1)


def detection_loss(pred, target, cfg):
    obj = target[:, 0]
    conf = nn.functional.binary_cross_entropy_with_logits(pred[:, 0], obj, reduction="none")
    conf = (obj * conf + cfg.lambda_noobj * (1 - obj) * conf).sum()
    coord = (obj[:, None] * (pred[:, 1:] - target[:, 1:]) ** 2).sum()
    return (conf + cfg.lambda_coord * coord) / len(pred)


def decode(out, size, threshold=0.5):
    g = out.shape[-1]
    cell, found = size / g, []
    conf = torch.sigmoid(out[0])
    for i, j in (conf > threshold).nonzero().tolist():
        _, dx, dy, sw, sh = out[:, i, j].tolist()
        w, h = sw ** 2 * size, sh ** 2 * size
        found.append(((j + dx) * cell - w / 2, (i + dy) * cell - h / 2, w, h, conf[i, j].item()))
    return sorted(found, key=lambda b: -b[4])


def iou(a, b):
    ix = max(0, min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0]))
    iy = max(0, min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1]))
    inter = ix * iy
    return inter / (a[2] * a[3] + b[2] * b[3] - inter)


@torch.no_grad()
def f1_at_50(model, data):
    model.eval()
    tp = fp = fn = 0
    for k in range(0, len(data), 50):
        idx = range(k, min(k + 50, len(data)))
        out = model(torch.stack([data[i][0] for i in idx]))
        for o, i in zip(out, idx):
            left = list(data.boxes[i])
            for det in decode(o, data.size):
                hit = max(left, key=lambda b: iou(det, b), default=None)
                if hit is not None and iou(det, hit) >= 0.5:
                    left.remove(hit)
                    tp += 1
                else:
                    fp += 1
            fn += len(left)
    return 2 * tp / max(2 * tp + fp + fn, 1)


def main():
    root = Path(sys.argv[1])
    cfg = SimpleNamespace(**json.loads((root / "hparams.json").read_text()))
    torch.manual_seed(cfg.seed)
    train, val, test = (Conveyor(root, p, cfg.grid) for p in ("train", "val", "test"))
    loader = DataLoader(train, batch_size=cfg.batch_size, shuffle=True, drop_last=True)
    model = GridDetector()
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=cfg.weight_decay)
    total = cfg.epochs * len(loader)

    def schedule(step):
        warm = min(1.0, (step + 1) / cfg.warmup_steps)
        return warm * 0.5 * (1 + np.cos(np.pi * step / total))

    sched = torch.optim.lr_scheduler.LambdaLR(opt, schedule)
    for epoch in range(cfg.epochs):
        model.train()
        run = 0.0
        for x, t in loader:
            loss = detection_loss(model(x), t, cfg)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            run += loss.item()
        if epoch % 4 == 3:
            print(f"epoch {epoch + 1} loss {run / len(loader):.3f} val F1@0.5 {f1_at_50(model, val):.3f}")
    print(f"test_f1 {f1_at_50(model, test):.4f}")


if __name__ == "__main__":
    main()
