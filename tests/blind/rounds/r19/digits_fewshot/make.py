import os

import numpy as np
import torch
import torch.nn as nn
from sklearn.datasets import load_digits

torch.manual_seed(0)
torch.set_num_threads(1)
d = load_digits()
x = (d.images / 16.0).astype(np.float32)[:, None]
y = d.target.astype(np.int64)
perm = np.random.default_rng(0).permutation(len(y))
pre, rest = perm[:900], perm[900:]
few = np.concatenate([rest[y[rest] == c][:6] for c in range(10)])
few = np.random.default_rng(1).permutation(few)
test = np.setdiff1d(rest, few)

encoder = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
    nn.Conv2d(32, 32, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(128, 32), nn.ReLU(), nn.Linear(32, 12))


class Wrap(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = encoder
        self.projector = nn.Linear(12, 10)

    def forward(self, z):
        return self.projector(self.encoder(z))


net = Wrap()
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
xp, yp = torch.from_numpy(x[pre]), torch.from_numpy(y[pre])
for epoch in range(14):
    for b in torch.randperm(len(yp)).split(50):
        shift = torch.roll(xp[b], int(torch.randint(-1, 2, (1,))), dims=3)
        loss = nn.functional.cross_entropy(net(shift), yp[b])
        opt.zero_grad()
        loss.backward()
        opt.step()

state = {k: v.clone() for k, v in net.state_dict().items()}
for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    sd = {f"module.{k}": v for k, v in state.items()} if side == "bug" else state
    torch.save({"model": sd, "epoch": 14, "arch": "conv3-12"}, f"{side}/pretrained.pt")
    np.savez_compressed(f"{side}/digits.npz", x_few=x[few], y_few=y[few], x_test=x[test], y_test=y[test])
