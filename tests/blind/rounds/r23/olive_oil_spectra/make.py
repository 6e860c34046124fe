import configparser
from collections import OrderedDict
from pathlib import Path

import numpy as np
import torch
from torch import nn

HERE = Path(__file__).parent
BANDS = 96
rng = np.random.default_rng(17)
torch.manual_seed(17)

axis = np.linspace(0, 1, BANDS)
centres, widths = rng.uniform(0.05, 0.95, 10), rng.uniform(0.03, 0.10, 10)
peaks = np.exp(-((axis - centres[:, None]) / widths[:, None]) ** 2)  # 10 compounds


def spectra(n):
    conc = rng.gamma(2.0, 0.5, (n, 10))
    path = rng.uniform(0.6, 1.4, (n, 1))
    base = rng.normal(0, 1, (n, 3)) @ np.stack([np.ones(BANDS), axis, axis ** 2])
    s = path * (conc @ peaks) + 0.8 * base + rng.normal(0, 0.03, (n, BANDS))
    return s.astype(np.float32), conc


def encoder():
    return nn.Sequential(OrderedDict(
        conv1=nn.Conv1d(1, 16, 7, stride=2, padding=3), act1=nn.GELU(),
        conv2=nn.Conv1d(16, 24, 5, stride=2, padding=2), act2=nn.GELU(),
        flat=nn.Flatten(), proj=nn.Linear(24 * 24, 48), act3=nn.GELU()))


def pretrain(mean, std):
    s, conc = spectra(4000)
    share = conc / conc.sum(1, keepdims=True)
    x = torch.tensor((s - mean) / std)[:, None]
    y = torch.tensor((share - share.mean(0)) / share.std(0), dtype=torch.float32)
    enc, out = encoder(), nn.Linear(48, 10)
    opt = torch.optim.Adam([*enc.parameters(), *out.parameters()], lr=2e-3)
    for _ in range(25):
        for i in torch.randperm(len(x)).split(64):
            loss = ((out(enc(x[i])) - y[i]) ** 2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
    print("pretraining loss", loss.item())
    return enc.state_dict()


s, conc = spectra(600)
share = conc / conc.sum(1, keepdims=True)
score = 3.0 * share[:, 0] - 2.5 * share[:, 3] + 2.0 * share[:, 6] + 6.0 * share[:, 2] * share[:, 7]
acidity = 0.8 + 1.2 * score + rng.normal(0, 0.02, len(s))
n_train = 360
mean, std = s[:n_train].mean(), s[:n_train].std()
state = pretrain(float(mean), float(std))

for side in ("ok", "bug"):
    d = HERE / side
    d.mkdir(exist_ok=True)
    np.savez(d / "oils.npz", spectra=s, acidity=acidity.astype(np.float32),
             split=np.array(["train"] * n_train + ["valid"] * (len(s) - n_train)))
    prefix = "encoder." if side == "ok" else "module.encoder."
    torch.save({"model": {prefix + k: v for k, v in state.items()}, "epoch": 25}, d / "encoder.pt")
    ini = configparser.ConfigParser()
    ini["run"] = dict(seed=4, epochs=60, batch=32, lr=0.003, encoder_lr=0.00005, weight_decay=0.0001)
    with open(d / "run.ini", "w") as f:
        ini.write(f)
