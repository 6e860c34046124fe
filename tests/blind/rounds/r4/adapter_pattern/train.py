"""Parameter-efficient tuning: which parameters train is decided by glob patterns in the config."""
import fnmatch
import json
import sys
from pathlib import Path
import torch
import torch.nn as nn
import torch.nn.functional as F

folder = Path(__file__).parent / sys.argv[1]


class Adapter(nn.Module):
    def __init__(self, d, r):
        super().__init__()
        self.down, self.up = nn.Linear(d, r), nn.Linear(r, d)
        nn.init.zeros_(self.up.weight)
        nn.init.zeros_(self.up.bias)

    def forward(self, x):
        return x + self.up(F.gelu(self.down(x)))


class Block(nn.Module):
    def __init__(self, d, r):
        super().__init__()
        self.norm, self.fc, self.adapter = nn.LayerNorm(d), nn.Linear(d, d), Adapter(d, r)

    def forward(self, x):
        return self.adapter(x + F.gelu(self.fc(self.norm(x))))


class Model(nn.Module):
    def __init__(self, d_in=20, d=32, r=8, blocks=2):
        super().__init__()
        self.stem = nn.Linear(d_in, d)
        self.blocks = nn.ModuleList(Block(d, r) for _ in range(blocks))
        self.head = nn.Linear(d, 1)

    def forward(self, x):
        h = self.stem(x)
        for b in self.blocks:
            h = b(h)
        return self.head(h).squeeze(-1)


def mark_trainable(model, patterns):
    for name, p in model.named_parameters():
        p.requires_grad_(any(fnmatch.fnmatch(name, pat) for pat in patterns))
    return [p for p in model.parameters() if p.requires_grad]


def crystal_energy(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 20, generator=g)
    return x, torch.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.5 * x[:, 3].abs()


def main():
    cfg = json.loads((folder / "config.json").read_text())
    torch.manual_seed(cfg["seed"])
    model = Model()
    model.load_state_dict(torch.load(folder / "base.pt"))
    params = mark_trainable(model, cfg["trainable"])
    opt = torch.optim.AdamW(params, lr=cfg["lr"], weight_decay=cfg["weight_decay"])
    x, y = crystal_energy(1600, 1)
    xv, yv = crystal_energy(400, 2)
    for epoch in range(cfg["epochs"]):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(cfg["batch_size"]):
            loss = F.mse_loss(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        model.eval()
        with torch.no_grad():
            r2 = 1 - F.mse_loss(model(xv), yv).item() / yv.var().item()
        print(f"epoch {epoch:2d} train mse {total / len(x):.4f} val R2 {r2:.3f}")


if __name__ == "__main__":
    main()
