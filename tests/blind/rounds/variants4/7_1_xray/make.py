from pathlib import Path

import numpy as np
import torch
from torch import nn

HERE = Path(__file__).parent
YY, XX = np.mgrid[0:12, 0:12]


def scans(n, rng, kinds):
    y = rng.integers(0, kinds, n)
    x = rng.normal(0, .55, (n, 12, 12)) + rng.normal(0, .3, (n, 1, 1))
    for i, k in enumerate(y):
        cx, cy = rng.uniform(3, 9, 2)
        r = np.hypot(XX - cx, YY - cy)
        a = rng.uniform(.9, 1.5)
        d = (XX - cx) * (1 if k == 2 else -1) + (YY - cy)
        x[i] += a * [np.exp(-(r / 1.6) ** 2), np.exp(-((r - 3) / .7) ** 2), np.exp(-(d / 1.0) ** 2) * (r < 4), np.exp(-(d / 1.0) ** 2) * (r < 4),
                     np.sign(np.sin(XX * 1.5)) * (r < 3), np.sign(np.sin(YY * 1.5)) * (r < 3)][k]
    return x.astype(np.float32), y


def pretrain(rng):
    torch.manual_seed(50)
    net = nn.ModuleDict(dict(backbone=nn.ModuleDict(dict(conv1=nn.Conv2d(1, 12, 3, padding=1), conv2=nn.Conv2d(12, 24, 3, padding=1), fc=nn.Linear(216, 48))),
                             head=nn.Linear(48, 6)))
    x, y = scans(4000, rng, 6)
    x, y = torch.from_numpy(x)[:, None], torch.from_numpy(y)
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    b = net["backbone"]
    for _ in range(6):
        for idx in torch.randperm(len(y)).split(64):
            h = torch.max_pool2d(torch.relu(b["conv1"](x[idx])), 2)
            h = torch.max_pool2d(torch.relu(b["conv2"](h)), 2)
            loss = nn.functional.cross_entropy(net["head"](torch.relu(b["fc"](h.flatten(1)))), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
    return {k: v.detach().clone() for k, v in net.state_dict().items()}


state = pretrain(np.random.default_rng(1))
for name in ("bug", "ok"):
    rng = np.random.default_rng(22)
    out = HERE / name
    out.mkdir(exist_ok=True)
    for fn, n in (("clinic_train", 120), ("clinic_valid", 600)):
        x, y = scans(n, rng, 4)
        np.savez(out / f"{fn}.npz", pixels=x, finding=y)
    saved = {"module." + k: v for k, v in state.items()} if name == "bug" else state
    torch.save(dict(state_dict=saved, epoch=6), out / "pretrained.pt")
