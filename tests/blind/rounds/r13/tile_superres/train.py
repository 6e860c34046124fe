"""x2 super-resolution with sub-pixel convolution."""
import sys
from pathlib import Path
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def tiles(path):
    return torch.from_numpy(np.load(path)).float() / 255


class ESPCN(nn.Module):
    def __init__(self, c=12):
        super().__init__()
        self.a = nn.Conv2d(1, c, 5, padding=2)
        self.b = nn.Conv2d(c, c, 3, padding=1)
        self.c = nn.Conv2d(c, 4, 3, padding=1)
        nn.init.zeros_(self.c.weight)
        nn.init.zeros_(self.c.bias)

    def forward(self, x):
        base = F.interpolate(x, scale_factor=2, mode="nearest")
        return base + F.pixel_shuffle(self.c(F.relu(self.b(F.relu(self.a(x))))), 2)


def psnr(p, t):
    return (-10 * torch.log10((p.clamp(0, 1) - t).pow(2).mean((1, 2, 3)) + 1e-10)).mean().item()


def main(folder):
    torch.manual_seed(1)
    ds = TensorDataset(tiles(folder / "lr.npy"), tiles(folder / "hr.npy"))
    loader = DataLoader(ds, batch_size=20, shuffle=True)
    el, eh = tiles(folder / "eval_lr.npy"), tiles(folder / "eval_hr.npy")
    net = ESPCN()
    opt = torch.optim.Adam(net.parameters(), lr=4e-3)
    for epoch in range(8):
        net.train()
        tot = 0.0
        for lo, hi in loader:
            loss = F.l1_loss(net(lo), hi)
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item()
        print(f"epoch {epoch} l1 {tot / len(loader):.5f}")
    net.eval()
    with torch.no_grad():
        print("final eval PSNR", psnr(net(el), eh))


main(Path(sys.argv[1]))
