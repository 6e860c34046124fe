"""Tiny YOLO-like detector: an 8x8 grid, one box per image."""
import torch
from torch import nn
import torch.nn.functional as F

IMG, GRID = 32, 8
STRIDE = IMG // GRID


def make_images(n, seed):
    g = torch.Generator().manual_seed(seed)
    wh = torch.randint(5, 12, (n, 2), generator=g)
    xy = (torch.rand(n, 2, generator=g) * (IMG - wh)).long()
    images = 0.3 * torch.randn(n, 1, IMG, IMG, generator=g)
    for i in range(n):
        (x, y), (w, h) = xy[i].tolist(), wh[i].tolist()
        images[i, 0, y:y + h, x:x + w] += 1.0
    boxes = torch.cat([xy, xy + wh], 1).float()
    return images, boxes


def encode(boxes):
    """xyxy pixel boxes -> (B, 5, GRID, GRID): objectness, dx, dy, log w, log h."""
    target = torch.zeros(len(boxes), 5, GRID, GRID)
    center = (boxes[:, :2] + boxes[:, 2:]) / 2
    size = boxes[:, 2:] - boxes[:, :2]
    cell = (center / STRIDE).long().clamp(max=GRID - 1)
    offset = center / STRIDE - cell
    rows = torch.arange(len(boxes))
    gx, gy = cell[:, 0], cell[:, 1]
    values = torch.cat([torch.ones(len(boxes), 1), offset, (size / STRIDE).log()], 1)
    target[rows, :, gx, gy] = values
    return target


def decode(out):
    """Most confident cell of every image -> xyxy pixel boxes."""
    obj = out[:, 0].flatten(1)
    best = obj.argmax(1)
    gy, gx = best // GRID, best % GRID
    v = out[torch.arange(len(out)), :, gy, gx]
    cx, cy = (gx + v[:, 1].sigmoid()) * STRIDE, (gy + v[:, 2].sigmoid()) * STRIDE
    w, h = v[:, 3].exp() * STRIDE, v[:, 4].exp() * STRIDE
    return torch.stack([cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2], 1)


def iou(a, b):
    lt, rb = torch.maximum(a[:, :2], b[:, :2]), torch.minimum(a[:, 2:], b[:, 2:])
    inter = (rb - lt).clamp(min=0).prod(1)
    area = lambda t: (t[:, 2:] - t[:, :2]).clamp(min=0).prod(1)
    return inter / (area(a) + area(b) - inter)


class Detector(nn.Module):
    def __init__(self, c=12):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, c, 5, stride=2, padding=2), nn.BatchNorm2d(c), nn.ReLU(),
            nn.Conv2d(c, 2 * c, 3, stride=2, padding=1), nn.BatchNorm2d(2 * c), nn.ReLU(),
            nn.Conv2d(2 * c, 2 * c, 3, padding=1), nn.BatchNorm2d(2 * c), nn.ReLU(),
            nn.Conv2d(2 * c, 5, 1))

    def forward(self, x):
        return self.net(x)


def detection_loss(out, target):
    pos = target[:, 0] == 1
    obj = F.binary_cross_entropy_with_logits(out[:, 0], target[:, 0], pos_weight=torch.tensor(8.0))
    o, t = out.permute(0, 2, 3, 1)[pos], target.permute(0, 2, 3, 1)[pos]
    center = F.binary_cross_entropy_with_logits(o[:, 1:3], t[:, 1:3])
    size = F.smooth_l1_loss(o[:, 3:], t[:, 3:])
    return obj + center + 2 * size


def main():
    torch.manual_seed(0)
    images, boxes = make_images(700, 1)
    val_images, val_boxes = make_images(200, 2)
    model = Detector()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(7):
        model.train()
        total = 0.0
        chunks = torch.randperm(len(images)).split(32)
        for idx in chunks:
            loss = detection_loss(model(images[idx]), encode(boxes[idx]))
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            ious = iou(decode(model(val_images)), val_boxes)
        print(f"epoch {epoch} loss {total / len(chunks):.3f} val mean IoU {ious.mean():.3f} AP50-like recall {(ious > 0.5).float().mean():.3f}")


if __name__ == "__main__":
    main()
