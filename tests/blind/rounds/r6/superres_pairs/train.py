"""x2 super-resolution of scanned digits."""
import json
import sys
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

folder = sys.argv[1]
torch.manual_seed(9)
scans = np.load(f"{folder}/scans.npz")
pairs = json.load(open(f"{folder}/pairs.json"))
number = lambda name: int(name.split("_")[1].split(".")[0])
low = torch.from_numpy(scans["lr"][[number(p["input"]) for p in pairs]].astype(np.float32) / 255)[:, None]
high = torch.from_numpy(scans["hr"][[number(p["target"]) for p in pairs]].astype(np.float32) / 255)[:, None]
i_tr, i_va, i_te = torch.randperm(len(low)).split([340, 60, 80])


class SubPixel(nn.Module):
    def __init__(self, w=14):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, w, 3, padding=1), nn.ReLU(), nn.Conv2d(w, w, 3, padding=1), nn.ReLU(),
                                 nn.Conv2d(w, 4, 3, padding=1), nn.PixelShuffle(2))

    def forward(self, x):
        return F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False) + self.net(x)


def psnr(a, b):
    return (-10 * torch.log10(((a - b) ** 2).mean((1, 2, 3)))).mean().item()


net = SubPixel()
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=12)


@torch.no_grad()
def evaluate(idx):
    net.eval()
    return psnr(net(low[idx]), high[idx])


with torch.no_grad():
    up = F.interpolate(low[i_te], scale_factor=2, mode="bilinear", align_corners=False)
best, state = -99.0, None
for epoch in range(12):
    net.train()
    tot = 0.0
    for b in i_tr[torch.randperm(len(i_tr))].split(20):
        loss = F.l1_loss(net(low[b]), high[b])
        opt.zero_grad()
        loss.backward()
        opt.step()
        tot += loss.item() * len(b)
    sched.step()
    p = evaluate(i_va)
    if p > best:
        best, state = p, {k: v.clone() for k, v in net.state_dict().items()}
    print(f"epoch {epoch:2d} L1 {tot / len(i_tr):.4f} val PSNR {p:.2f}")
net.load_state_dict(state)
print(f"test PSNR bilinear {psnr(up, high[i_te]):.2f}  network {evaluate(i_te):.2f}")
