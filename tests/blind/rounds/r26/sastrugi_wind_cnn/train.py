"""Direction of the wind-carved snow ridges (sastrugi) in photographs of three masts."""
import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
torch.manual_seed(21)


class RidgeImages(Dataset):
    def __init__(self, image, axis):
        self.image = torch.from_numpy(image.astype(np.float32))[:, None]
        m = self.image.mean((1, 2, 3), keepdim=True)
        s = self.image.std((1, 2, 3), keepdim=True)
        self.image = (self.image - m) / s
        a = torch.deg2rad(torch.from_numpy(axis)) * 2
        self.target = torch.stack([a.sin(), a.cos()], 1)

    def __len__(self):
        return len(self.image)

    def __getitem__(self, i):
        return self.image[i], self.target[i]


def conv(cin, cout, stride):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU())


class RidgeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 12, 5, 2, 2), nn.ReLU(), conv(12, 24, 1), conv(24, 32, 2))
        self.head = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


def axis_error(pred, target):
    p = torch.atan2(pred[:, 0], pred[:, 1])
    t = torch.atan2(target[:, 0], target[:, 1])
    d = (p - t + torch.pi) % (2 * torch.pi) - torch.pi
    return torch.rad2deg(d.abs() / 2)


folder = Path(sys.argv[1])
masts = json.loads((folder / "masts.json").read_text())["masts"]
parts = {"train": ([], []), "valid": ([], [])}
for name in masts:
    f = np.load(folder / f"{name}.npz")
    order = np.random.default_rng(len(name)).permutation(len(f["axis_deg"]))
    cut = int(0.8 * len(order))
    for part, idx in (("train", order[:cut]), ("valid", order[cut:])):
        parts[part][0].append(f["image"][idx])
        parts[part][1].append(f["axis_deg"][idx])
train, valid = (RidgeImages(np.concatenate(i), np.concatenate(a)) for i, a in parts.values())
print(len(train), "training and", len(valid), "validation images from", ", ".join(masts))

EPOCHS = 11
loader = DataLoader(train, batch_size=32, shuffle=True)
net = RidgeNet()
opt = torch.optim.Adam(net.parameters(), lr=4e-3)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, EPOCHS * len(loader))

for epoch in range(1, EPOCHS + 1):
    net.train()
    losses = []
    for x, y in loader:
        loss = nn.functional.mse_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        losses.append(loss.item())
    net.eval()
    with torch.no_grad():
        err = torch.cat([axis_error(net(x), y) for x, y in DataLoader(valid, batch_size=128)])
    if epoch % 3 == 2:
        print(f"epoch {epoch:2d}  loss {np.mean(losses):.4f}  mean error {err.mean():.1f} deg  "
              f"median {err.median():.1f} deg")
