"""Tonnes of sand in the hopper at the end of a dredging trip, from the mixture line
instruments. The charterer checks the claims of the ships with it."""
import csv
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def load_ship(path, cfg):
    with open(path, newline="") as f:
        reader = csv.reader(f)
        head = next(reader)
        grid = np.array([[float(v) for v in row] for row in reader])
    order = np.lexsort((grid[:, head.index("step_5min")], grid[:, head.index("trip")]))
    grid = grid[order].reshape(-1, cfg.steps, len(head))
    assert (np.diff(grid[:, :, head.index("trip")], axis=1) == 0).all()
    x = grid[:, :, [head.index(c) for c in cfg.inputs]]
    return x.astype(np.float32), grid[:, 0, head.index(cfg.target)].astype(np.float32)


class HopperNet(nn.Module):
    def __init__(self, n_in, hidden):
        super().__init__()
        self.inlet = nn.Sequential(nn.Linear(n_in, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.gru = nn.GRU(hidden, hidden, batch_first=True)
        self.outlet = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, x):
        h, last = self.gru(self.inlet(x))
        return self.outlet(torch.cat([h.mean(1), last[-1]], dim=1)).squeeze(1)


def evaluate(net, loader, mean, std):
    net.eval()
    errors, truth = [], []
    with torch.no_grad():
        for x, load in loader:
            errors.append((net(x) * std + mean - load).abs())
            truth.append(load)
    return torch.cat(errors).mean().item(), torch.cat(truth)


def main(folder):
    cfg = SimpleNamespace(**json.loads((folder / "run.json").read_text()))
    torch.manual_seed(cfg.seed)
    rng = np.random.default_rng(cfg.seed)
    parts = [load_ship(folder / f"{ship}.csv", cfg) for ship in cfg.ships]
    x = np.concatenate([p[0] for p in parts])
    load = np.concatenate([p[1] for p in parts])
    shuffled = rng.permutation(len(x))
    n_val = int(cfg.validation_share * len(x))
    val, train = shuffled[:n_val], shuffled[n_val:]

    centre = x[train].mean((0, 1))
    spread = x[train].std((0, 1))
    x = torch.from_numpy((x - centre) / spread)
    load = torch.from_numpy(load)
    mean, std = load[train].mean(), load[train].std()
    train_loader = DataLoader(TensorDataset(x[train], load[train]), batch_size=cfg.batch, shuffle=True)
    val_loader = DataLoader(TensorDataset(x[val], load[val]), batch_size=256)

    net = HopperNet(len(cfg.inputs), cfg.hidden)
    opt = torch.optim.Adam(net.parameters(), lr=cfg.lr)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, cfg.lr, epochs=cfg.epochs, steps_per_epoch=len(train_loader))
    print(f"{len(train)} trips for training, {n_val} for validation, mean load {mean:.0f} t")
    for epoch in range(1, cfg.epochs + 1):
        net.train()
        running = 0.0
        for xb, yb in train_loader:
            loss = nn.functional.mse_loss(net(xb), (yb - mean) / std)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
            sched.step()
            running += loss.item() * len(yb)
        if epoch % 4 == 0:
            mae, truth = evaluate(net, val_loader, mean, std)
            print(f"epoch {epoch:2d}  train mse {running / len(train):.4f}  val MAE {mae:.0f} t "
                  f"({100 * mae / truth.mean().item():.1f} % of the mean load)")
    return net, val


if __name__ == "__main__":
    main(Path(sys.argv[1]))
