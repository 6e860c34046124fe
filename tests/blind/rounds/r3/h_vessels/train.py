import json
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

conf = json.load(open(f"{sys.argv[1]}/train.json"))
torch.manual_seed(conf["seed"])
SIZE = 32


def vessels(n, seed):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:SIZE, :SIZE]
    img, mask = [], []
    for _ in range(n):
        m = np.zeros((SIZE, SIZE), bool)
        for _ in range(2):
            a, b, w = rng.uniform(-1, 1), rng.uniform(6, 26), rng.uniform(1.2, 2.2)
            centre = b + a * (xx - SIZE / 2) * 0.6 + 3 * np.sin(xx / rng.uniform(4, 7))
            m |= np.abs(yy - centre) < w
        img.append(0.6 * m + 0.3 * rng.standard_normal((SIZE, SIZE)))
        mask.append(m)
    return torch.tensor(np.array(img), dtype=torch.float32)[:, None], torch.tensor(np.array(mask), dtype=torch.float32)[:, None]


class Net(nn.Module):
    def __init__(self, c=8):
        super().__init__()
        self.a = nn.Conv2d(1, c, 5, padding=2)
        self.b = nn.Conv2d(c, c, 3, padding=1)
        self.out = nn.Conv2d(c, 1, 1)

    def forward(self, x):
        return self.out(F.relu(self.b(F.relu(self.a(x)))))


def soft_dice(logits, mask):
    p = logits.sigmoid()
    return 1 - (2 * (p * mask).sum() + 1) / (p.sum() + mask.sum() + 1)


@torch.no_grad()
def val_dice(model, img, mask):
    model.eval()
    pred = (model(img) > 0).float()
    return (2 * (pred * mask).sum() / (pred.sum() + mask.sum()).clamp(min=1)).item()


train_img, train_mask = vessels(96, seed=1)
val_img, val_mask = vessels(40, seed=2)
loader = DataLoader(TensorDataset(train_img, train_mask), batch_size=conf["batch_size"], shuffle=True)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=conf["lr"])
print(f"{len(loader)} batches per epoch, accumulate {conf['accumulate']}")
for epoch in range(1, conf["epochs"] + 1):
    model.train()
    optimizer.zero_grad()
    total = 0.0
    for i, (img, mask) in enumerate(loader, start=1):
        logits = model(img)
        loss = F.binary_cross_entropy_with_logits(logits, mask) + soft_dice(logits, mask)
        (loss / conf["accumulate"]).backward()
        total += loss.item()
        if i % conf["accumulate"] == 0:
            optimizer.step()
            optimizer.zero_grad()
    if epoch % 4 == 0:
        print(f"epoch {epoch} loss {total / len(loader):.4f} val dice {val_dice(model, val_img, val_mask):.4f}")
print(f"validation dice {val_dice(model, val_img, val_mask):.4f}")
