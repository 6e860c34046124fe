import numpy as np
import torch
from torch import nn

torch.set_num_threads(1)


def cloud(kind, rng, n=64):
    u, v, w = rng.uniform(-1, 1, (3, n))
    a = np.pi * u
    if kind == 0:
        p = rng.normal(size=(n, 3))
        p /= np.linalg.norm(p, axis=1, keepdims=True)
    elif kind == 1:
        p = np.stack([u, v, w], 1)
        p[np.arange(n), rng.integers(0, 3, n)] = rng.choice([-1, 1], n)
    elif kind == 2:
        p = np.stack([np.cos(a), np.sin(a), v], 1)
    elif kind == 3:
        h = np.sqrt(rng.random(n))
        p = np.stack([h * np.cos(a), h * np.sin(a), 1 - 2 * h], 1)
    elif kind == 4:
        b = np.pi * v
        p = np.stack([(0.7 + 0.3 * np.cos(b)) * np.cos(a), (0.7 + 0.3 * np.cos(b)) * np.sin(a), 0.3 * np.sin(b)], 1)
    elif kind == 5:
        p = np.stack([np.cos(2 * a), np.sin(2 * a), u], 1)
    elif kind == 6:
        p = np.where((rng.random(n) < 0.5)[:, None], np.stack([u, v, 0 * u], 1), np.stack([u, 0 * u, v], 1))
    else:
        p = np.stack([u, v, u ** 2 - v ** 2], 1)
    q, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    p = (p * rng.uniform(0.7, 1.3, 3)) @ q
    p = p + rng.normal(0, 0.04, p.shape)
    p -= p.mean(0)
    return (p / np.linalg.norm(p, axis=1).max()).astype(np.float32)


def clouds(n, rng):
    y = rng.integers(0, 8, n)
    return np.stack([cloud(k, rng) for k in y]), y


class PointEncoder(nn.Module):
    def __init__(self, dim=96):
        super().__init__()
        self.local = nn.Sequential(nn.Linear(3, 48), nn.ReLU(), nn.Linear(48, 96), nn.ReLU(), nn.Linear(96, dim))
        self.mix = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim), nn.ReLU())

    def forward(self, p):
        return self.mix(self.local(p).amax(1))


rng = np.random.default_rng(6)
torch.manual_seed(6)
xs, ys = clouds(4000, rng)
xs, ys = torch.from_numpy(xs), torch.from_numpy(ys)
enc, head = PointEncoder(), nn.Linear(96, 8)
opt = torch.optim.Adam([*enc.parameters(), *head.parameters()], lr=2e-3)
for epoch in range(7):
    for g in opt.param_groups:
        g["lr"] = 2e-3 * (1 - epoch / 8)
    for idx in torch.randperm(len(xs)).split(64):
        q, _ = torch.linalg.qr(torch.randn(len(idx), 3, 3))
        loss = nn.functional.cross_entropy(head(enc(xs[idx] @ q)), ys[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
xt, yt = clouds(240, rng)
xv, yv = clouds(600, rng)
for side in ("bug", "ok"):
    np.savez_compressed(f"{side}/train.npz", points=xt.astype(np.float16), label=yt.astype(np.int8))
    np.savez_compressed(f"{side}/test.npz", points=xv.astype(np.float16), label=yv.astype(np.int8))
    prefix = "encoder." if side == "ok" else "module.encoder."
    state = {prefix + k: v for k, v in enc.state_dict().items()}
    torch.save({"epoch": 7, "model": state}, f"{side}/pretrained.pt")
