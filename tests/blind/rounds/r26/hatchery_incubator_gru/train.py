"""Hatch rate of incubator batches from the daily log of the first 18 days."""
import configparser
import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Scaler:
    """The scaling is kept in a file because the hatchery's own panel uses it too."""

    def __init__(self, path, columns, clip):
        table = json.loads(Path(path).read_text())
        position = {c: i for i, c in enumerate(table["columns"])}
        pick = [position[c] for c in columns]
        self.mean = torch.tensor(table["mean"])[pick]
        self.std = torch.tensor(table["std"])[pick]
        self.clip = clip

    def __call__(self, log):
        return ((log - self.mean) / self.std).clamp(-self.clip, self.clip)


class HatchModel(nn.Module):
    def __init__(self, channels, hidden):
        super().__init__()
        self.rnn = nn.GRU(channels, hidden, batch_first=True)
        self.head = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.SiLU(), nn.Linear(hidden, 1))

    def forward(self, x):
        states, last = self.rnn(x)
        return self.head(torch.cat([last[-1], states.mean(1)], 1)).squeeze(1)


def run(folder):
    ini = configparser.ConfigParser()
    ini.read(folder / "run.ini")
    training = ini["training"]
    torch.manual_seed(training.getint("seed"))

    data = np.load(folder / "incubator_log.npz")
    columns = [str(c) for c in data["columns"]]
    scale = Scaler(folder / "scaling.json", columns, ini["model"].getfloat("clip"))
    x = scale(torch.from_numpy(data["log"]))
    y = torch.from_numpy(data["hatch_pct"])
    is_train = torch.from_numpy(data["split"] == "train")
    y_mean, y_std = y[is_train].mean(), y[is_train].std()

    loader = DataLoader(TensorDataset(x[is_train], (y[is_train] - y_mean) / y_std), training.getint("batch"), shuffle=True)
    x_val, y_val = x[~is_train], y[~is_train]
    model = HatchModel(len(columns), ini["model"].getint("hidden"))
    opt = torch.optim.Adam(model.parameters(), lr=training.getfloat("lr"))
    epochs = training.getint("epochs")
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs * len(loader))
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for xb, yb in loader:
            loss = (model(xb) - yb).square().mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 2.0)
            opt.step()
            sched.step()
            total += loss.item()
        if (epoch + 1) % 4 == 0:
            model.eval()
            with torch.no_grad():
                guess = model(x_val) * y_std + y_mean
            mae = (guess - y_val).abs().mean().item()
            plain = (y_val - y_mean).abs().mean().item()
            print(f"epoch {epoch + 1:2d}  train {total / len(loader):.4f}  val MAE {mae:.2f} % points (mean guess {plain:.2f})")


if __name__ == "__main__":
    run(Path(sys.argv[1]))
