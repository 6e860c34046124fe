# Hand gesture classification from 21 tracked landmarks (x, y, z), exported by the tracker as (clip, 3, 21).
import math
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
GESTURES = {"fist": (0, 0, 0, 0, 0), "open": (1, 1, 1, 1, 1), "point": (0, 1, 0, 0, 0), "victory": (0, 1, 1, 0, 0),
            "thumb": (1, 0, 0, 0, 0), "call": (1, 0, 0, 0, 1), "three": (0, 1, 1, 1, 0), "rock": (0, 1, 0, 0, 1)}


def synth(n):
    names = list(GESTURES)
    label = torch.randint(0, len(names), (n,))
    ext = torch.tensor([GESTURES[k] for k in names]).float()[label]
    ext = (ext * 0.75 + 0.2 + 0.13 * torch.randn(n, 5)).clamp(0.05, 1.1)
    pts = torch.zeros(n, 21, 3)
    for f in range(5):
        ang = math.radians(-55 + 25 * f) + 0.12 * torch.randn(n)
        base = torch.stack([torch.sin(ang), torch.cos(ang), torch.zeros(n)], 1)
        for j in range(4):
            reach = 0.45 + 0.2 * j * ext[:, f]
            curl = 0.15 * j * (1 - ext[:, f])
            p = base * reach[:, None]
            p[:, 2] -= curl
            pts[:, 1 + 4 * f + j] = p
    roll = 1.2 * (torch.rand(n) - 0.5) * 2
    c, s = torch.cos(roll), torch.sin(roll)
    x, y = pts[..., 0].clone(), pts[..., 1].clone()
    pts[..., 0] = c[:, None] * x - s[:, None] * y
    pts[..., 1] = s[:, None] * x + c[:, None] * y
    size = 0.08 + 0.1 * torch.rand(n, 1, 1)
    where = torch.rand(n, 1, 3) * torch.tensor([1.0, 1.0, 0.3])
    pts = pts * size + where + 0.004 * torch.randn(n, 21, 3)
    return pts.transpose(1, 2).contiguous(), label


def to_points(raw):
    """(B, 3, 21) -> (B, 21, 3), wrist at the origin, unit palm size"""
    p = raw.view(raw.shape[0], 21, 3)
    p = p - p[:, :1]
    scale = p.norm(dim=2).amax(dim=1)
    return p / scale[:, None, None].clamp_min(1e-6)


class GestureNet(nn.Module):
    def __init__(self, n_cls, width=64):
        super().__init__()
        self.joint = nn.Sequential(nn.Linear(3, 16), nn.ReLU())
        self.trunk = nn.Sequential(nn.Linear(21 * 16, width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(width, n_cls))

    def forward(self, raw):
        return self.trunk(self.joint(to_points(raw)).flatten(1))


train = TensorDataset(*synth(1600))
test_x, test_y = synth(1200)
loader = DataLoader(train, batch_size=64, shuffle=True)
net = GestureNet(len(GESTURES))
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for epoch in range(25):
    net.train()
    seen = 0.0
    for xb, yb in loader:
        loss = F.cross_entropy(net(xb), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
        seen += loss.item() * len(xb)
    if epoch % 6 == 0:
        print("epoch", epoch, "loss", round(seen / len(train), 4))
net.eval()
with torch.no_grad():
    acc = (net(test_x).argmax(1) == test_y).float().mean().item()
print(f"test accuracy {acc:.4f}")
