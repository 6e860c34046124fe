"""Triage colour from the vital signs at arrival."""
import json
import pathlib
import sys

import numpy as np
import torch
import torch.nn as nn


class TriageModel(nn.Module):
    def __init__(self, n_vitals, n_classes, width=40):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(n_vitals, width), nn.LayerNorm(width), nn.ReLU(), nn.Dropout(0.1),
            nn.Linear(width, width), nn.LayerNorm(width), nn.ReLU(),
            nn.Linear(width, n_classes),
        )

    def forward(self, v):
        return self.layers(v)


class Experiment:
    def __init__(self, folder):
        self.cfg = json.loads((folder / "triage.json").read_text())
        torch.manual_seed(self.cfg["seed"])
        self.names = self.cfg["classes"]
        self.load(folder / "arrivals.npz")
        self.model = TriageModel(self.x.shape[1], len(self.names))
        # the rare colours count for more
        self.criterion = nn.CrossEntropyLoss(weight=torch.tensor(self.cfg["class_weights"]))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=self.cfg["lr"])
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, self.cfg["epochs"])

    def load(self, path):
        with np.load(path) as z:
            vitals, colour = z["vitals"], z["colour"]
        order = np.random.default_rng(self.cfg["seed"]).permutation(len(vitals))
        cut = int(0.75 * len(order))
        train, val = order[:cut], order[cut:]
        centre, spread = vitals[train].mean(0), vitals[train].std(0)
        vitals = (vitals - centre) / spread
        self.x, self.y = torch.from_numpy(vitals[train]), torch.from_numpy(colour[train])
        self.xv, self.yv = torch.from_numpy(vitals[val]), torch.from_numpy(colour[val])

    def train_epoch(self):
        self.model.train()
        total = 0.0
        for idx in torch.randperm(len(self.x)).split(self.cfg["batch"]):
            loss = self.criterion(self.model(self.x[idx]), self.y[idx])
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.item() * len(idx)
        self.scheduler.step()
        return total / len(self.x)

    @torch.no_grad()
    def recalls(self):
        self.model.eval()
        pred = self.model(self.xv).argmax(1)
        return [(pred[self.yv == c] == c).float().mean().item() for c in range(len(self.names))]

    def run(self):
        for epoch in range(self.cfg["epochs"]):
            loss = self.train_epoch()
            r = self.recalls()
            print(f"epoch {epoch + 1:2d}  loss {loss:.4f}  balanced accuracy {np.mean(r):.4f}")
        for name, value in zip(self.names, r):
            print(f"  recall {name:7s} {value:.3f}")
        print(f"final val balanced accuracy {np.mean(r):.4f}")


if __name__ == "__main__":
    Experiment(pathlib.Path(sys.argv[1])).run()
