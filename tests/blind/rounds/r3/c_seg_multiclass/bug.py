import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
NAMES = ["background", "liver", "kidney", "spleen"]
C, SIZE = len(NAMES), 32


def make_scans(n, seed):
    g = torch.Generator().manual_seed(seed)
    yy, xx = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    label = torch.zeros(n, SIZE, SIZE, dtype=torch.long)
    for c, (cy, cx, r) in enumerate([(11, 10, 7), (23, 12, 4), (14, 24, 5)], start=1):
        oy = cy + 2 * torch.randn(n, generator=g)
        ox = cx + 2 * torch.randn(n, generator=g)
        rad = r * (1 + 0.1 * torch.randn(n, generator=g))
        inside = (yy - oy[:, None, None]) ** 2 + (xx - ox[:, None, None]) ** 2 < rad[:, None, None] ** 2
        label[inside] = c
    level = torch.tensor([0.0, 0.6, 1.0, 0.8])
    image = level[label] + 0.2 * torch.randn(n, SIZE, SIZE, generator=g)
    return image[:, None], label


class SegNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        def conv(i, o, d=1):
            return nn.Sequential(nn.Conv2d(i, o, 3, padding=d, dilation=d), nn.GroupNorm(4, o), nn.ReLU())
        self.body = nn.Sequential(conv(1, width), conv(width, width, 2), conv(width, width, 4))
        self.classify = nn.Conv2d(width, C, 1)

    def forward(self, x):
        return self.classify(self.body(x))


class PixelLoss(nn.Module):
    """class-weighted cross entropy over all pixels of a batch"""

    def __init__(self, weight):
        super().__init__()
        self.register_buffer("weight", weight)

    def forward(self, logits, label):
        flat = logits.reshape(-1, C)
        return F.cross_entropy(flat, label.reshape(-1), weight=self.weight)


@torch.no_grad()
def mean_dice(model, image, label):
    model.eval()
    pred = model(image).argmax(1)
    dices = []
    for c in range(1, C):
        p, t = pred == c, label == c
        dices.append((2 * (p & t).sum() / (p.sum() + t.sum()).clamp(min=1)).item())
    return sum(dices) / len(dices), dices


train_img, train_lab = make_scans(192, seed=1)
val_img, val_lab = make_scans(60, seed=2)
mean, std = train_img.mean(), train_img.std()
train_img, val_img = (train_img - mean) / std, (val_img - mean) / std
freq = torch.bincount(train_lab.flatten(), minlength=C).float()
criterion = PixelLoss((freq.sum() / freq).sqrt() / 2)
loader = DataLoader(TensorDataset(train_img, train_lab), batch_size=16, shuffle=True)

model = SegNet()
optimizer = torch.optim.AdamW(model.parameters(), lr=8e-3, weight_decay=1e-4)
for epoch in range(1, 7):
    model.train()
    total = 0.0
    for img, lab in loader:
        loss = criterion(model(img), lab)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch} loss {total / len(loader):.4f} val dice {mean_dice(model, val_img, val_lab)[0]:.4f}")
avg, each = mean_dice(model, val_img, val_lab)
print(f"mean dice {avg:.3f} " + " ".join(f"{n} {d:.3f}" for n, d in zip(NAMES[1:], each)))
