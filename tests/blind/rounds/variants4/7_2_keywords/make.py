import json
from pathlib import Path

import numpy as np
import torch
from torch import nn

HERE = Path(__file__).parent
D, K = 30, 5


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.l1, self.l2, self.out = nn.LayerNorm(D), nn.Linear(D, 128), nn.Linear(128, 128), nn.Linear(128, K)

    def forward(self, x):
        return self.out(torch.relu(self.l2(torch.relu(self.l1(self.norm(x))))))


def sounds(n, rng, protos):
    y = rng.integers(0, K, n)
    variant = rng.integers(0, 3, n)
    x = protos[y, variant] + rng.normal(0, 1.1, (n, D))
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y)


def fit(x, y):
    torch.manual_seed(9)
    net = Net()
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(6):
        for idx in torch.randperm(len(y)).split(64):
            loss = nn.functional.cross_entropy(net(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
    return net.state_dict()


base = np.random.default_rng(33)
protos = base.normal(0, 1, (K, 3, D))
other = base.normal(0, 1, (K, 3, D))
other[0] = protos[0]
for name in ("bug", "ok"):
    rng = np.random.default_rng(34)
    out = HERE / name
    out.mkdir(exist_ok=True)
    big = sounds(6000, rng, protos if name == "ok" else other)
    rng = np.random.default_rng(35)
    lab, tgt = sounds(60, rng, protos)
    pool, _ = sounds(3000, rng, protos)
    val, vt = sounds(800, rng, protos)
    np.savez(out / "commands.npz", labelled=lab.numpy(), target=tgt.numpy(), unlabelled=pool.numpy(), valid=val.numpy(), valid_target=vt.numpy())
    torch.save(fit(*big), out / "teacher_v3.pt")
    (out / "distill.json").write_text(json.dumps(dict(teacher="teacher_v3.pt", lr=2e-3, epochs=12, batch=64, alpha=0.7, temperature=2.0, seed=2)))
