import io
import math

import torch
from torch import nn
import torch.nn.functional as F

PLAN = {"total": 300, "warmup": 30, "peak": 0.02}


def teacher_data(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 10, generator=g)
    w = torch.randn(10, 4, generator=torch.Generator().manual_seed(99))
    y = torch.tanh(x @ w).sum(1, keepdim=True)
    return x, y + 0.3 * torch.randn(n, 1, generator=g)


class Run:
    def __init__(self, seed):
        torch.manual_seed(seed)
        self.net = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
        self.opt = torch.optim.Adam(self.net.parameters(), lr=PLAN["peak"])
        self.step = 0

    def rate(self):
        if self.step < PLAN["warmup"]:
            return PLAN["peak"] * (self.step + 1) / PLAN["warmup"]
        done = (self.step - PLAN["warmup"]) / (PLAN["total"] - PLAN["warmup"])
        return 0.5 * PLAN["peak"] * (1 + math.cos(math.pi * min(1.0, done)))

    def advance(self, x, y, steps, size=64):
        self.net.train()
        for _ in range(steps):
            for group in self.opt.param_groups:
                group["lr"] = self.rate()
            rows = torch.randint(len(x), (size,))
            loss = F.mse_loss(self.net(x[rows]), y[rows])
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.step += 1
        return loss.item()

    @torch.no_grad()
    def validate(self, x, y):
        self.net.eval()
        return F.mse_loss(self.net(x), y).item()

    def save(self):
        buf = io.BytesIO()
        torch.save({"net": self.net.state_dict(), "opt": self.opt.state_dict(), "step": self.step}, buf)
        return buf.getvalue()

    def restore(self, blob):
        ck = torch.load(io.BytesIO(blob), weights_only=True)
        self.net.load_state_dict(ck["net"])
        self.opt.load_state_dict(ck["opt"])
        return self


train, valid = teacher_data(3000, 0), teacher_data(1000, 1)
first = Run(seed=0)
for _ in range(3):
    first.advance(*train, steps=50)
    print(f"first job   rate {first.rate():.5f}  valid mse {first.validate(*valid):.4f}")
blob = first.save()

second = Run(seed=1).restore(blob)
for _ in range(3):
    second.advance(*train, steps=50)
    print(f"second job  rate {second.rate():.5f}  valid mse {second.validate(*valid):.4f}")
