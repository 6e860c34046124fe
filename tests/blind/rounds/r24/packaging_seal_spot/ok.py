# Seal strength (N/15mm) on flow-wrap packaging lines.
# Trained on cheap preemptible machines: every session gets a budget of steps, saves, and the next one picks up.
import json
import math
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

CFG = json.loads("""{
  "seed": 13, "rows": 9000, "films": 30, "embed": 8, "width": 160,
  "lr": 0.002, "weight_decay": 0.001, "batch": 24, "total_steps": 1800, "session_steps": 50
}""")


def line_records(cfg):
    rng = np.random.default_rng(cfg["seed"])
    n = cfg["rows"]
    film = rng.integers(0, cfg["films"], n)
    melt, gain, thick = rng.normal(0, 0.9, cfg["films"]), rng.uniform(1.5, 4, cfg["films"]), rng.normal(0, 0.7, cfg["films"])
    x = rng.normal(size=(n, 14))
    x[:, 1] = 0.7 * x[:, 0] + 0.7 * x[:, 1]          # second jaw follows the first
    energy = 0.8 * x[:, 0] + 0.4 * x[:, 1] + 0.6 * x[:, 2] - 0.7 * x[:, 3] - melt[film]
    strength = gain[film] * np.exp(-0.5 * (energy - 0.4) ** 2) * (1 + 0.3 * np.tanh(x[:, 4] - thick[film]))
    strength -= 0.5 * np.maximum(x[:, 5] + 0.5 * x[:, 6], 0) * (film % 3 == 0)
    y = 6 + 2 * strength + rng.normal(0, 0.7, n)
    return x.astype(np.float32), film, y.astype(np.float32)


class SealNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.film = nn.Embedding(cfg["films"], cfg["embed"])
        self.mlp = nn.Sequential(
            nn.Linear(14 + cfg["embed"], cfg["width"]), nn.GELU(),
            nn.Linear(cfg["width"], cfg["width"]), nn.GELU(),
            nn.Linear(cfg["width"], 1),
        )

    def forward(self, x, film):
        return self.mlp(torch.cat([x, self.film(film)], 1)).squeeze(1)


class Session:
    """One visit to a machine. State lives in the checkpoint file."""

    def __init__(self, cfg, train, ckpt):
        self.cfg, self.train_set, self.ckpt = cfg, train, ckpt
        torch.manual_seed(cfg["seed"])
        self.model = SealNet(cfg)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=cfg["lr"], weight_decay=cfg["weight_decay"])
        self.step = 0
        if ckpt.exists():
            self.restore()
        self.gen = torch.Generator().manual_seed(cfg["seed"] + self.step)

    def restore(self):
        state = torch.load(self.ckpt, weights_only=True)
        self.model.load_state_dict(state["model"])
        self.opt.load_state_dict(state["opt"])
        self.step = state["step"]

    def save(self):
        torch.save({"model": self.model.state_dict(), "opt": self.opt.state_dict(), "step": self.step}, self.ckpt)

    def batches(self):
        while True:
            yield from torch.randperm(len(self.train_set[0]), generator=self.gen).split(self.cfg["batch"])

    def work(self):
        x, film, y = self.train_set
        self.model.train()
        losses = []
        for _, idx in zip(range(self.cfg["session_steps"]), self.batches()):
            progress = self.step / self.cfg["total_steps"]
            for g in self.opt.param_groups:
                g["lr"] = self.cfg["lr"] * 0.5 * (1 + math.cos(math.pi * progress))
            loss = F.mse_loss(self.model(x[idx], film[idx]), y[idx])
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.step += 1
            losses.append(loss.item())
        self.save()
        return float(np.mean(losses))

    @torch.no_grad()
    def score(self, x, film, y, unit):
        self.model.eval()
        return (self.model(x, film) - y).abs().mean().item() * unit


def main():
    x, film, y = line_records(CFG)
    order = np.random.default_rng(CFG["seed"] + 1).permutation(len(x))
    tr, va = order[:-1500], order[-1500:]
    x = (x - x[tr].mean(0)) / x[tr].std(0)
    unit = float(y[tr].std())
    y = (y - y[tr].mean()) / unit
    data = [torch.from_numpy(v) for v in (x, film, y)]
    train, val = [v[tr] for v in data], [v[va] for v in data]
    with tempfile.TemporaryDirectory() as d:
        ckpt = Path(d) / "seal.pt"
        for visit in range(CFG["total_steps"] // CFG["session_steps"]):
            session = Session(CFG, train, ckpt)
            loss = session.work()
            if visit % 4 == 3:
                print(f"session {visit + 1:2d}  step {session.step:4d}  loss {loss:.4f}  val MAE {session.score(*val, unit):.3f}")
    print(f"final validation MAE {session.score(*val, unit):.3f} N/15mm")


if __name__ == "__main__":
    main()
