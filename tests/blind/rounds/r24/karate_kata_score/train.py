"""Kata score from motion windows: tries the settings listed in settings.json and keeps the best one."""
import csv
import json
import sys
from copy import deepcopy
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Table:
    def __init__(self, path, settings):
        with open(path, newline="") as f:
            rows = list(csv.DictReader(f))
        self.columns = {c: np.array([r[c] for r in rows], dtype=np.float32) for g in ("motion", "body") for c in settings[g]}
        self.y = np.array([r[settings["target"]] for r in rows], dtype=np.float32)

    def matrix(self, names):
        return np.stack([self.columns[n] for n in names], 1)


class ScoreNet(nn.Module):
    def __init__(self, d, hidden, dropout):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(d, hidden), nn.LayerNorm(hidden), nn.GELU(), nn.Dropout(dropout),
            nn.Linear(hidden, hidden), nn.GELU(), nn.Dropout(dropout),
            nn.Linear(hidden, 1),
        )

    def forward(self, x):
        return self.layers(x).squeeze(-1)


class Trial:
    """One setting: its columns, their scaling, and the weights of its best epoch."""

    def __init__(self, spec, settings, train):
        self.spec, self.settings = spec, settings
        self.names = [c for g in spec["columns"] for c in settings[g]]
        x = train.matrix(self.names)
        self.mu, self.sd = x.mean(0), x.std(0)
        self.y_mu, self.y_sd = float(train.y.mean()), float(train.y.std())
        self.model = ScoreNet(len(self.names), settings["hidden"], spec["dropout"])
        self.best, self.best_epoch = float("inf"), 0

    def inputs(self, table):
        return torch.from_numpy((table.matrix(self.names) - self.mu) / self.sd)

    @torch.no_grad()
    def mae(self, table):
        self.model.eval()
        score = self.model(self.inputs(table)) * self.y_sd + self.y_mu
        return (score - torch.from_numpy(table.y)).abs().mean().item()

    def fit(self, train, val):
        s = self.settings
        x, y = self.inputs(train), torch.from_numpy((train.y - self.y_mu) / self.y_sd)
        opt = torch.optim.AdamW(self.model.parameters(), lr=s["lr"], weight_decay=self.spec["weight_decay"])
        keep = None
        for epoch in range(1, s["epochs"] + 1):
            self.model.train()
            losses = []
            for idx in torch.randperm(len(x)).split(s["batch"]):
                loss = F.smooth_l1_loss(self.model(x[idx]), y[idx])
                opt.zero_grad()
                loss.backward()
                opt.step()
                losses.append(loss.item())
            score = self.mae(val)
            if score < self.best:
                self.best, self.best_epoch, keep = score, epoch, deepcopy(self.model.state_dict())
        self.model.load_state_dict(keep)
        label = "+".join(self.spec["columns"])
        print(f"{label:12s} wd {self.spec['weight_decay']:<5} drop {self.spec['dropout']}  last train loss {np.mean(losses):.4f}"
              f"  best epoch {self.best_epoch:2d}  val MAE {self.best:.4f}")


def search(folder):
    settings = json.loads((folder / "settings.json").read_text())
    train, val = Table(folder / settings["train"], settings), Table(folder / settings["val"], settings)
    print(f"{len(train.y)} training windows, {len(val.y)} validation windows")
    winner = None
    for spec in settings["trials"]:
        torch.manual_seed(settings["seed"])
        trial = Trial(spec, settings, train)
        trial.fit(train, val)
        if winner is None or trial.best < winner.best:
            winner = trial
    print(f"chosen: {winner.spec}, epoch {winner.best_epoch}, validation MAE {winner.best:.4f}")
    return winner


if __name__ == "__main__":
    search(Path(sys.argv[1]))
