"""Yield of a mushroom flush (kg per square metre) from the climate log of the growing room."""
import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class FlushNet(nn.Module):
    def __init__(self, n_in, hidden):
        super().__init__()
        self.gru = nn.GRU(n_in + 1, hidden, batch_first=True)
        self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, x):
        clock = torch.linspace(-1, 1, x.shape[1]).expand(x.shape[0], -1).unsqueeze(-1)
        out, _ = self.gru(torch.cat([x, clock], -1))
        return self.head(out.mean(1)).squeeze(-1)


def load(path):
    with np.load(path) as z:
        return torch.from_numpy(z["climate"]), torch.from_numpy(z["yield_kg_m2"])


def mean_abs_error(model, loader, y_mean, y_std):
    model.eval()
    err, n = 0.0, 0
    with torch.no_grad():
        for x, y in loader:
            kg = model(x) * y_std + y_mean
            err += (kg - y).abs().sum().item()
            n += len(y)
    return err / n


def main(folder):
    folder = Path(folder)
    cfg = json.loads((folder / "settings.json").read_text())
    torch.manual_seed(cfg["seed"])

    x_tr, y_tr = load(folder / "flushes_train.npz")
    x_va, y_va = load(folder / "flushes_val.npz")
    mu, sd = x_tr.mean((0, 1)), x_tr.std((0, 1))
    x_tr, x_va = (x_tr - mu) / sd, (x_va - mu) / sd
    y_mean, y_std = y_tr.mean(), y_tr.std()

    train = DataLoader(TensorDataset(x_tr, y_tr), batch_size=cfg["batch_size"], shuffle=True)
    val = DataLoader(TensorDataset(x_va, y_va), batch_size=256)

    model = FlushNet(x_tr.shape[2], cfg["hidden"])
    o = cfg["optimizer"]
    opt = torch.optim.SGD(model.parameters(), lr=o["lr"], momentum=o["momentum"], weight_decay=o["weight_decay"])
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, cfg["epochs"])
    loss_fn = nn.MSELoss()

    for epoch in range(cfg["epochs"]):
        model.train()
        total = 0.0
        for x, y in train:
            opt.zero_grad()
            loss = loss_fn(model(x), (y - y_mean) / y_std)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), o["clip_norm"])
            opt.step()
            total += loss.item() * len(y)
        sched.step()
        if epoch % 5 == 4:
            mae = mean_abs_error(model, val, y_mean, y_std)
            print(f"epoch {epoch + 1:3d}  train mse {total / len(y_tr):.4f}  val MAE {mae:.3f} kg/m2")

    print(f"final val MAE {mean_abs_error(model, val, y_mean, y_std):.3f} kg/m2")


if __name__ == "__main__":
    main(sys.argv[1])
