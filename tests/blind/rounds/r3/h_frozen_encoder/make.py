import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(3)
SIZE = 32
rng = np.random.default_rng(3)
yy, xx = np.mgrid[:SIZE, :SIZE]


def batch(n):
    img, mask = np.zeros((n, SIZE, SIZE), np.float32), np.zeros((n, SIZE, SIZE), np.float32)
    for i in range(n):
        cy, cx, r = *rng.uniform(9, 23, 2), rng.uniform(4, 8)
        m = (yy - cy) ** 2 + (xx - cx) ** 2 < r ** 2
        a, b = np.sin(1.6 * xx + rng.uniform(0, 6)), np.sin(1.6 * yy + rng.uniform(0, 6))
        img[i] = np.where(m, a, b) + 0.5 * rng.standard_normal((SIZE, SIZE))
        mask[i] = m
    return torch.from_numpy(img)[:, None], torch.from_numpy(mask)[:, None]


conv1, conv2, head = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 6, 5, padding=2), nn.Conv2d(6, 1, 1)
net = nn.Sequential(conv1, nn.ReLU(), conv2, nn.ReLU(), head)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(400):
    x, m = batch(8)
    loss = F.binary_cross_entropy_with_logits(net(x), m)
    opt.zero_grad()
    loss.backward()
    opt.step()
print("pre-training loss", loss.item())
state = {f"conv1.{k}": v for k, v in conv1.state_dict().items()} | {f"conv2.{k}": v for k, v in conv2.state_dict().items()}
torch.save(state, "ok/encoder.pt")
torch.save({"module." + k: v for k, v in state.items()}, "bug/encoder.pt")
