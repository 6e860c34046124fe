"""Where does the arrow land? Regression of the impact point (cm) from release, bow and wind measurements."""
import json

import numpy as np
import torch
import torch.nn as nn

CONFIG = json.loads("""
{
  "seed": 8,
  "rows": {"train": 4000, "val": 1000},
  "net": {"hidden": [96, 96], "dropout": 0.05},
  "optim": {"lr": 0.05, "momentum": 0.9, "weight_decay": 1e-4, "clip": 1.0},
  "amp": {"init_scale": 1024.0, "growth_interval": 1000},
  "epochs": 25,
  "accumulate": 2,
  "batch": 32
}
""")


class ShotTable:
    """Simulated shots at 70 m: cant, torque, draw length, release, spine, wind along and across, temperature."""

    columns = ["cant", "torque", "draw", "pluck", "spine", "wind_x", "wind_y", "temp"]

    def __init__(self, n, rng):
        cant, torque = rng.normal(0, 1.5, n), rng.normal(0, 0.8, n)
        draw, pluck = rng.normal(71, 0.5, n), rng.gamma(2.0, 0.5, n)
        spine = rng.choice([500.0, 550.0, 600.0], n)
        wind_x, wind_y = rng.normal(0, 2.2, n), rng.normal(0, 1.5, n)
        temp = rng.uniform(5, 32, n)
        speed = 58 + 1.9 * (draw - 71) + 0.05 * (temp - 18) - 0.012 * (spine - 550)
        flight = 70 / speed
        x = 2.1 * cant + 5.0 * torque * (spine / 550) ** 3 + 5.5 * wind_x * flight ** 2 - 3.0 * pluck * np.sign(torque)
        y = 9.0 * (speed - 58) + 1.6 * wind_y * flight - 0.9 * cant ** 2 - 2.0 * pluck
        self.x = np.stack([cant, torque, draw, pluck, spine, wind_x, wind_y, temp], 1).astype(np.float32)
        self.y = (np.stack([x, y], 1) + rng.normal(0, 1.0, (n, 2))).astype(np.float32)


class Scaler:
    def fit(self, a):
        self.mean, self.std = a.mean(0), a.std(0)
        return self

    def __call__(self, a):
        return torch.from_numpy((a - self.mean) / self.std)


def build(n_in, n_out, hidden, dropout):
    layers = []
    for h in hidden:
        layers += [nn.Linear(n_in, h), nn.LayerNorm(h), nn.GELU(), nn.Dropout(dropout)]
        n_in = h
    return nn.Sequential(*layers, nn.Linear(n_in, n_out))


class Trainer:
    def __init__(self, cfg, model, steps):
        self.cfg, self.model = cfg, model
        o = cfg["optim"]
        self.opt = torch.optim.SGD(model.parameters(), o["lr"], momentum=o["momentum"], weight_decay=o["weight_decay"])
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, steps)
        self.scaler = torch.amp.GradScaler("cpu", **cfg["amp"])
        self.loss = nn.MSELoss()

    def update(self):
        nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg["optim"]["clip"])
        self.scaler.step(self.opt)
        self.scaler.update()
        self.opt.zero_grad(set_to_none=True)
        self.sched.step()

    def epoch(self, x, y):
        self.model.train()
        k, total = self.cfg["accumulate"], 0.0
        batches = torch.randperm(len(x)).split(self.cfg["batch"])
        batches = batches[:len(batches) // k * k]
        for i, idx in enumerate(batches, 1):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                pred = self.model(x[idx])
            loss = self.loss(pred.float(), y[idx])
            self.scaler.scale(loss / k).backward()
            total += loss.item()
            if i % k == 0:
                self.update()
        return total / len(batches)


def main():
    rng = np.random.default_rng(CONFIG["seed"])
    torch.manual_seed(CONFIG["seed"])
    train, val = ShotTable(CONFIG["rows"]["train"], rng), ShotTable(CONFIG["rows"]["val"], rng)
    sx, sy = Scaler().fit(train.x), Scaler().fit(train.y)
    x, y, xv = sx(train.x), sy(train.y), sx(val.x)
    model = build(len(ShotTable.columns), 2, **CONFIG["net"])
    steps = CONFIG["epochs"] * (len(x) // (CONFIG["batch"] * CONFIG["accumulate"]))
    trainer = Trainer(CONFIG, model, steps)
    for epoch in range(1, CONFIG["epochs"] + 1):
        loss = trainer.epoch(x, y)
        if epoch % 5 == 0:
            print(f"epoch {epoch:3d}  train mse {loss:.4f}  lr {trainer.sched.get_last_lr()[0]:.4f}")
    model.eval()
    with torch.no_grad():
        pred = model(xv).numpy() * sy.std + sy.mean
    print(f"validation: mean miss of the predicted impact {np.linalg.norm(pred - val.y, axis=1).mean():.2f} cm")


if __name__ == "__main__":
    main()
