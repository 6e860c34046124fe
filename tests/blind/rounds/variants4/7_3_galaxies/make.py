from pathlib import Path

import numpy as np
import torch
from torch import nn

HERE = Path(__file__).parent
R = np.linspace(0, 1, 40)


def galaxies(n, rng):
    t = rng.integers(0, 5, n)
    s = (np.array([.8, 1.4, 2.0, 2.8, 3.6])[t] + rng.normal(0, .18, n))[:, None]
    phase, amp = rng.uniform(0, 6.28, (n, 1)), (np.array([.55, .3, .5, .2, .1])[t] + rng.normal(0, .06, n))[:, None]
    x = 3 * np.exp(-s * R) + amp * np.sin(9 * R + phase)
    for k in range(4):
        x = x + rng.normal(0, .5, (n, 1)) * np.cos((k + 1) * 2.5 * R + k)
    x = x + rng.normal(0, .15, x.shape)
    return x.astype(np.float32), t.astype(np.int64), s, amp


def pretrain(rng, every):
    torch.manual_seed(61)
    x, _, s, amp = galaxies(6000, rng)
    goal = torch.tensor(np.hstack([s, amp * 4]), dtype=torch.float32)
    x = torch.from_numpy(x)
    x = (x - x.mean(0)) / x.std(0)
    enc = nn.Sequential(nn.Linear(40, 96), nn.GELU(), nn.Linear(96, 96), nn.GELU(), nn.Linear(96, 12))
    head = nn.Linear(12, 2)
    ema = {k: v.detach().clone() for k, v in enc.state_dict().items()}
    opt = torch.optim.Adam([*enc.parameters(), *head.parameters()], lr=2e-3)
    step = 0
    for _ in range(10):
        for idx in torch.randperm(len(x)).split(64):
            loss = nn.functional.mse_loss(head(enc(x[idx])), goal[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
            if every:
                for k, v in enc.state_dict().items():
                    ema[k].lerp_(v, 0.01)
    model = {k: v.detach().clone() for k, v in enc.state_dict().items()}
    return dict(model=model, ema=ema, step=step)


for name in ("bug", "ok"):
    out = HERE / name
    out.mkdir(exist_ok=True)
    torch.save(pretrain(np.random.default_rng(44), name == "ok"), out / "encoder_last.pt")
    rng = np.random.default_rng(45)
    x, y, *_ = galaxies(400, rng)
    vx, vy, *_ = galaxies(1000, rng)
    np.savez(out / "survey.npz", profile=x, type=y, profile_valid=vx, type_valid=vy)
