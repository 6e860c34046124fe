import json
import math
import sys
from pathlib import Path
import torch
import torch.nn as nn

CFG = json.loads((Path(__file__).parent / sys.argv[1] / "config.json").read_text())


def jets(n, seed):
    """Constituents (pt, eta, phi) of two kinds of jets: one prong or two."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 2, (n,), generator=g)
    sep = 0.35 * y.float()
    axis = torch.rand(n, generator=g) * 2 * math.pi
    side = (torch.rand(n, 16, generator=g) < 0.5).float() * 2 - 1
    eta = side * (sep * axis.cos())[:, None] + 0.25 * torch.randn(n, 16, generator=g)
    phi = side * (sep * axis.sin())[:, None] + 0.25 * torch.randn(n, 16, generator=g)
    pt = torch.empty(n, 16).exponential_(1.0, generator=g)
    return torch.stack([pt.log1p(), 2 * eta, 2 * phi], -1), y


class DeepSet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.phi = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.rho = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2))

    def forward(self, x):
        return self.rho(self.phi(x).mean(1))


def schedule(warmup, total):
    def factor(step):
        if step < warmup:
            return (step + 1) / warmup
        progress = (step - warmup) / max(1, total - warmup)
        return 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
    return factor


def main():
    torch.manual_seed(CFG["seed"])
    x, y = jets(1920, 1)
    xv, yv = jets(800, 2)
    model = DeepSet(CFG["width"])
    opt = torch.optim.AdamW(model.parameters(), lr=CFG["lr"], weight_decay=CFG["weight_decay"])
    steps_per_epoch = math.ceil(len(x) / CFG["batch_size"])
    sched = torch.optim.lr_scheduler.LambdaLR(opt, schedule(CFG["warmup_steps"], CFG["epochs"] * steps_per_epoch))
    for epoch in range(CFG["epochs"]):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(CFG["batch_size"]):
            loss = nn.functional.cross_entropy(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            total += loss.item() * len(idx)
        model.eval()
        with torch.no_grad():
            acc = (model(xv).argmax(1) == yv).float().mean().item()
        print(f"epoch {epoch} loss {total / len(x):.4f} val acc {acc:.3f}")


if __name__ == "__main__":
    main()
