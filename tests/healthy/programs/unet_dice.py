"""A small UNet that finds discs: dice + BCE, plateau schedule, IoU in validation."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

SIZE = 16


class Discs(Dataset):
    def __init__(self, count, seed):
        g = torch.Generator().manual_seed(seed)
        self.images, self.masks = [], []
        ys, xs = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
        for _ in range(count):
            cy, cx = torch.randint(4, 12, (2,), generator=g).tolist()
            mask = ((ys - cy) ** 2 + (xs - cx) ** 2 < 12).float()
            self.images.append(mask + 0.4 * torch.randn(SIZE, SIZE, generator=g))
            self.masks.append(mask)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, idx):
        return self.images[idx].unsqueeze(0), self.masks[idx].unsqueeze(0)


class DoubleConv(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(cin, cout, 3, 1, 1, bias=False),
            nn.BatchNorm2d(cout),
            nn.ReLU(inplace=True),
            nn.Conv2d(cout, cout, 3, 1, 1, bias=False),
            nn.BatchNorm2d(cout),
            nn.ReLU(inplace=True),
        )

    def forward(self, x):
        return self.conv(x)


class UNet(nn.Module):
    def __init__(self, features=(8, 16)):
        super().__init__()
        self.downs, self.ups = nn.ModuleList(), nn.ModuleList()
        self.pool = nn.MaxPool2d(2, 2)
        cin = 1
        for f in features:
            self.downs.append(DoubleConv(cin, f))
            cin = f
        self.bottleneck = DoubleConv(features[-1], features[-1] * 2)
        for f in reversed(features):
            self.ups.append(nn.ConvTranspose2d(f * 2, f, 2, 2))
            self.ups.append(DoubleConv(f * 2, f))
        self.final = nn.Conv2d(features[0], 1, 1)

    def forward(self, x):
        skips = []
        for down in self.downs:
            x = down(x)
            skips.append(x)
            x = self.pool(x)
        x = self.bottleneck(x)
        for i in range(0, len(self.ups), 2):
            x = self.ups[i](x)
            x = self.ups[i + 1](torch.cat((skips[-1 - i // 2], x), dim=1))
        return self.final(x)


class DiceBCELoss(nn.Module):
    def forward(self, inputs, targets, smooth=1):
        probs = torch.sigmoid(inputs).view(-1)
        flat = targets.view(-1)
        dice = 1 - (2.0 * (probs * flat).sum() + smooth) / (probs.sum() + flat.sum() + smooth)
        return F.binary_cross_entropy(probs, flat, reduction="mean") + dice


def check_iou(loader, model):
    model.eval()
    inter = union = 0.0
    with torch.no_grad():
        for x, y in loader:
            preds = (torch.sigmoid(model(x)) > 0.5).float()
            inter += (preds * y).sum().item()
            union += ((preds + y) > 0).sum().item()
    model.train()
    return inter / max(union, 1.0)


torch.manual_seed(2)
train_loader = DataLoader(Discs(96, 0), batch_size=16, shuffle=True)
val_loader = DataLoader(Discs(32, 1), batch_size=16)
model, loss_fn = UNet(), DiceBCELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="max", patience=1)
for epoch in range(4):
    for data, targets in train_loader:
        predictions = model(data)
        loss = loss_fn(predictions, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    iou = check_iou(val_loader, model)
    scheduler.step(iou)
    print(f"epoch {epoch} loss {loss.item():.3f} IoU {iou:.3f}")
