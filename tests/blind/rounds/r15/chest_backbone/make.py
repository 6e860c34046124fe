import os
import torch
from torch import nn
here = os.path.dirname(os.path.abspath(__file__))


def pictures(n, g):
    """oriented stripes, eight angles"""
    k = torch.randint(0, 8, (n,), generator=g)
    ang = k.float() * torch.pi / 8
    yy, xx = torch.meshgrid(torch.arange(14.0), torch.arange(14.0), indexing="ij")
    phase = torch.rand(n, 1, 1, generator=g) * 6.28
    wave = torch.sin(0.9 * (xx * ang.cos()[:, None, None] + yy * ang.sin()[:, None, None]) + phase)
    return (wave + 0.9 * torch.randn(n, 14, 14, generator=g))[:, None], k


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 5, padding=2)
        self.conv2 = nn.Conv2d(16, 16, 3, padding=1)

    def forward(self, x):
        h = torch.relu(self.conv1(x))
        return torch.relu(self.conv2(h)).amax((2, 3))


torch.manual_seed(1)
torch.set_num_threads(1)
g = torch.Generator().manual_seed(1)
x, y = pictures(2000, g)
body, top = Backbone(), nn.Linear(16, 8)
opt = torch.optim.Adam([*body.parameters(), *top.parameters()], lr=4e-3)
for _ in range(8):
    for idx in torch.randperm(len(x), generator=g).split(50):
        opt.zero_grad()
        nn.functional.cross_entropy(top(body(x[idx])), y[idx]).backward()
        opt.step()
few, few_y = pictures(120, g)
test, test_y = pictures(800, g)
for side in ("bug", "ok"):
    d = os.path.join(here, side)
    os.makedirs(d, exist_ok=True)
    prefix = "module." if side == "bug" else ""
    torch.save({"epoch": 8, "state_dict": {prefix + k: v.clone() for k, v in body.state_dict().items()}}, os.path.join(d, "backbone.pt"))
    torch.save({"x": few, "y": few_y}, os.path.join(d, "train.pt"))
    torch.save({"x": test, "y": test_y}, os.path.join(d, "test.pt"))
