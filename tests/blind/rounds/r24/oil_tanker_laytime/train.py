# Hours alongside for crude and product tankers, from the voyage tables of several years.
import argparse
import tomllib
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

CATS = ["terminal", "cargo", "agent", "hull_class"]
NUMS = ["parcel_kt", "age", "draught", "wave_height", "queue", "pumps"]


def load_year(path):
    table = np.genfromtxt(path, delimiter="\t", names=True, dtype=np.float64)
    cats = np.stack([table[c] for c in CATS], 1).astype(np.int64)
    nums = np.stack([table[c] for c in NUMS], 1)
    return cats, nums, table["hours"]


class TankerNet(nn.Module):
    def __init__(self, sizes, n_nums, dim, hidden, dropout):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(s, dim) for s in sizes])
        self.body = nn.Sequential(
            nn.Linear(dim * len(sizes) + n_nums, hidden), nn.ReLU(), nn.Dropout(dropout),
            nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, cats, nums):
        parts = [t(cats[:, i]) for i, t in enumerate(self.tables)]
        return self.body(torch.cat(parts + [nums], 1)).squeeze(1)


def fit(home, cfg):
    torch.manual_seed(cfg["seed"])
    years = [load_year(home / name) for name in cfg["train_tables"]]
    cats, nums, hours = (np.concatenate(p) for p in zip(*years))
    v_cats, v_nums, v_hours = load_year(home / cfg["valid_table"])
    sizes = [cfg["cardinality"][c] for c in CATS]
    print(f"{len(hours)} voyages for training, {len(v_hours)} for validation, table sizes {sizes}")

    mean, std = nums.mean(0), nums.std(0)
    y = np.log(hours)
    y_mean, y_std = y.mean(), y.std()

    def tensors(c, n, t):
        return (torch.from_numpy(c), torch.tensor((n - mean) / std, dtype=torch.float32),
                torch.tensor((np.log(t) - y_mean) / y_std, dtype=torch.float32))

    loader = DataLoader(TensorDataset(*tensors(cats, nums, hours)), cfg["batch"], shuffle=True)
    vc, vn, _ = tensors(v_cats, v_nums, v_hours)
    net = TankerNet(sizes, len(NUMS), cfg["dim"], cfg["hidden"], cfg["dropout"])
    opt = torch.optim.AdamW(net.parameters(), lr=cfg["lr"], weight_decay=cfg["weight_decay"])
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, cfg["lr"], total_steps=cfg["epochs"] * len(loader))
    for epoch in range(cfg["epochs"]):
        net.train()
        total = 0.0
        for c, n, t in loader:
            opt.zero_grad()
            loss = nn.functional.mse_loss(net(c, n), t)
            loss.backward()
            opt.step()
            sched.step()
            total += loss.item() * len(t)
        net.eval()
        with torch.no_grad():
            guess = np.exp(net(vc, vn).numpy() * y_std + y_mean)
        mae = np.abs(guess - v_hours).mean()
        print(f"epoch {epoch + 1:2d}  mse {total / len(hours):.4f}  valid MAE {mae:.2f} h")
    print(f"always the training median: {np.abs(np.median(hours) - v_hours).mean():.2f} h")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("home", type=Path)
    home = ap.parse_args().home
    fit(home, tomllib.loads((home / "laytime.toml").read_text()))
