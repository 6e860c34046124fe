"""A one-stage detector on small images: objectness, class and box losses over grid cells, warm-up schedule, gradient
accumulation."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

GRID, CELL, CLASSES = 4, 4, 3
SIZE = GRID * CELL
ACCUMULATE = 2


class Shapes(Dataset):
    def __init__(self, length):
        self.items = [self.make() for _ in range(length)]

    @staticmethod
    def make():
        image = 0.1 * torch.randn(3, SIZE, SIZE)
        boxes, labels = [], []
        for _ in range(int(torch.randint(1, 3, (1,)))):
            w, h = torch.randint(3, 7, (2,)).tolist()
            x, y = torch.randint(0, SIZE - 7, (2,)).tolist()
            label = int(torch.randint(0, CLASSES, (1,)))
            image[label, y : y + h, x : x + w] += 1.0
            boxes.append([x, y, x + w, y + h])
            labels.append(label)
        return image, torch.tensor(boxes, dtype=torch.float32), torch.tensor(labels)

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(batch):
    images, boxes, labels = zip(*batch, strict=True)
    return torch.stack(images), list(boxes), list(labels)


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1), nn.GroupNorm(4, 16), nn.SiLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.SiLU()
        )
        self.cls_head = nn.Conv2d(32, CLASSES, 1)
        self.box_head = nn.Conv2d(32, 4, 1)
        self.obj_head = nn.Conv2d(32, 1, 1)
        nn.init.constant_(self.obj_head.bias, -2.0)

    def forward(self, x):
        f = self.stem(x)
        return self.obj_head(f).squeeze(1), self.cls_head(f).permute(0, 2, 3, 1), self.box_head(f).permute(0, 2, 3, 1)


def assign(boxes, labels):
    obj = torch.zeros(len(boxes), GRID, GRID)
    cls = torch.full((len(boxes), GRID, GRID), -1, dtype=torch.long)
    reg = torch.zeros(len(boxes), GRID, GRID, 4)
    for b, (bs, ls) in enumerate(zip(boxes, labels, strict=True)):
        centre = (bs[:, :2] + bs[:, 2:]) / 2
        cell = (centre / CELL).long().clamp(0, GRID - 1)
        for (cx, cy), box, mid, label in zip(cell.tolist(), bs, centre, ls, strict=True):
            obj[b, cy, cx] = 1.0
            cls[b, cy, cx] = label
            size = torch.log((box[2:] - box[:2]) / CELL)
            reg[b, cy, cx] = torch.cat([mid / CELL - torch.tensor([cx, cy]), size])
    return obj, cls, reg


def detection_loss(outputs, targets):
    obj, cls, reg = outputs
    t_obj, t_cls, t_reg = targets
    pos = t_obj > 0
    n = pos.sum().clamp(min=1)
    obj_loss = F.binary_cross_entropy_with_logits(obj, t_obj, pos_weight=torch.tensor(3.0))
    cls_loss = F.cross_entropy(cls.reshape(-1, CLASSES), t_cls.reshape(-1), ignore_index=-1)
    box_loss = F.smooth_l1_loss(reg[pos], t_reg[pos], reduction="sum") / n
    return {"obj": obj_loss, "cls": cls_loss, "box": box_loss}


torch.manual_seed(8)
loader = DataLoader(Shapes(128), batch_size=8, shuffle=True, collate_fn=collate)
model = Detector()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4, nesterov=True)
warmup = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=8)
for epoch in range(3):
    model.train()
    for i, (images, boxes, labels) in enumerate(loader):
        losses = detection_loss(model(images), assign(boxes, labels))
        loss = sum(losses.values())
        (loss / ACCUMULATE).backward()
        if (i + 1) % ACCUMULATE == 0:
            nn.utils.clip_grad_norm_(model.parameters(), 10.0)
            optimizer.step()
            optimizer.zero_grad()
            warmup.step()
    print(epoch, {k: f"{v.item():.3f}" for k, v in losses.items()})

model.eval()
with torch.no_grad():
    images, boxes, labels = next(iter(loader))
    scores = torch.sigmoid(model(images)[0])
    print("best cells", scores.flatten(1).max(1).values.mean().item())
