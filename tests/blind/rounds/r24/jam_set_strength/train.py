# Gel strength of a jam batch from the stirring torque, temperature and motor power during the boil
import pathlib
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

home = pathlib.Path(sys.argv[1])
rng = torch.Generator().manual_seed(2)
torch.manual_seed(2)


def load(name):
    with np.load(home / f"kettles_{name}.npz") as z:
        return z["curves"].astype(np.float32), z["fruit"].astype(np.int64), z["gel_strength"]


class KettleNet(nn.Module):
    def __init__(self, channels=3, fruits=4, width=32):
        super().__init__()
        self.c1 = nn.Conv1d(channels, width, 5, stride=2, padding=2)
        self.c2 = nn.Conv1d(width, width, 5, stride=2, padding=2)
        self.c3 = nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.fruit = nn.Embedding(fruits, 8)
        self.fc = nn.Linear(width * 8 + 8, 64)
        self.out = nn.Linear(64, 1)

    def forward(self, x, fruit):
        for c in (self.c1, self.c2, self.c3):
            x = F.relu(c(x))
        x = torch.cat([x.flatten(1), self.fruit(fruit)], 1)
        return self.out(F.relu(self.fc(x))).squeeze(-1)


ct, ft, yt = load("train")
cv, fv, yv = load("valid")
m, s = ct.mean((0, 2), keepdims=True), ct.std((0, 2), keepdims=True)
ym, ys = yt.mean(), yt.std()
ct, cv = torch.from_numpy((ct - m) / s), torch.from_numpy((cv - m) / s)
ft, fv = torch.from_numpy(ft), torch.from_numpy(fv)
zt = torch.from_numpy((yt - ym) / ys)

net = KettleNet()
opt = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.02)
epochs, batch = 24, 50
sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=2e-3, epochs=epochs, steps_per_epoch=len(zt) // batch)

for ep in range(epochs):
    net.train()
    perm = torch.randperm(len(zt), generator=rng)
    acc = 0.0
    for b in perm.view(-1, batch):
        loss = F.mse_loss(net(ct[b], ft[b]), zt[b])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        opt.step()
        sched.step()
        acc += loss.item() / (len(zt) // batch)
    if (ep + 1) % 3 == 0:
        net.eval()
        with torch.no_grad():
            guess = net(cv, fv).numpy() * ys + ym
        err = guess - yv
        print(f"[{ep + 1:02d}] mse {acc:.4f}  valid RMSE {np.sqrt((err ** 2).mean()):.2f}  R2 {1 - (err ** 2).mean() / yv.var():.3f}")
