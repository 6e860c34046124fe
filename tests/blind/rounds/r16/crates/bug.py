"""One-crate detector on 32x32 depth images: objectness and box offsets on an 8x8 grid of anchors."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(31)
IMG, CELL = 32, 4
GRID = IMG // CELL
ANCHOR = 10.0


def scenes(n):
    wh = torch.randint(7, 14, (n, 2)).float()
    xy = (torch.rand(n, 2) * (IMG - wh)).floor()
    boxes = torch.cat([xy, xy + wh], 1)
    img = 0.3 * torch.randn(n, 1, IMG, IMG)
    for i, (x1, y1, x2, y2) in enumerate(boxes.int().tolist()):
        img[i, 0, y1:y2, x1:x2] += 1.0
    return img, boxes


def anchor_boxes():
    c = torch.arange(GRID) * CELL + CELL / 2
    cy, cx = torch.meshgrid(c, c, indexing="ij")
    centre = torch.stack([cx, cy], -1).reshape(-1, 2)
    return torch.cat([centre - ANCHOR / 2, centre + ANCHOR / 2], 1)


def box_iou(a, b):
    """a: (N,4) b: (M,4) in x1y1x2y2 -> (N,M)"""
    lt = torch.max(a[:, None, :2], b[None, :, :2])
    rb = torch.min(a[:, None, 2:], b[None, :, 2:])
    wh = rb - lt
    inter = wh[..., 0] * wh[..., 1]
    area_a = (a[:, 2] - a[:, 0]) * (a[:, 3] - a[:, 1])
    area_b = (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])
    return inter / (area_a[:, None] + area_b[None, :] - inter)


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv2d(1, 12, 4, stride=4), nn.ReLU(),
            nn.Conv2d(12, 24, 3, padding=1), nn.ReLU(),
            nn.Conv2d(24, 24, 3, padding=1), nn.ReLU(),
        )
        self.head = nn.Conv2d(24, 5, 1)

    def forward(self, img):
        out = self.head(self.trunk(img)).flatten(2).transpose(1, 2)
        return out[..., 0], out[..., 1:]


anchors = anchor_boxes()
net = Detector()
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
img, gt = scenes(600)
positive = box_iou(gt, anchors) > 0.35
offsets = (gt[:, None] - anchors[None]) / ANCHOR

for epoch in range(12):
    for sel in torch.randperm(len(img)).split(30):
        obj, off = net(img[sel])
        pos = positive[sel]
        loss_obj = F.binary_cross_entropy_with_logits(obj, pos.float())
        loss_box = F.smooth_l1_loss(off[pos], offsets[sel][pos])
        loss = loss_obj + loss_box
        opt.zero_grad()
        loss.backward()
        opt.step()
    if epoch % 3 == 2:
        print(f"epoch {epoch + 1} objectness {loss_obj.item():.3f} box {loss_box.item():.3f}")

test_img, test_gt = scenes(300)
with torch.no_grad():
    obj, off = net(test_img)
    best = obj.argmax(1)
    pred = anchors[best] + ANCHOR * off[torch.arange(len(best)), best]
err = (pred - test_gt).abs().mean(1)
print(f"test: share of boxes within 1 px {(err < 1).float().mean():.3f}, mean corner error {err.mean():.2f} px")
