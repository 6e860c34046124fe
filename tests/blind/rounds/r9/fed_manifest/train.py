"""Federated averaging over sites described in federation.json."""
import copy
import json
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Site:
    """Holds one participant's private rows and runs its local epochs."""

    def __init__(self, entry, folder, cfg):
        self.name = entry["site"]
        self.weight = float(entry["num_examples"])
        self.x, self.y = load_rows(folder / entry["file"])
        self.cfg = cfg

    def train(self, global_model):
        model = copy.deepcopy(global_model)
        model.train()
        opt = torch.optim.SGD(model.parameters(), lr=self.cfg["lr"], momentum=self.cfg["momentum"])
        losses = []
        for _ in range(self.cfg["local_epochs"]):
            for idx in torch.randperm(len(self.y)).split(self.cfg["batch"]):
                loss = F.cross_entropy(model(self.x[idx]), self.y[idx])
                opt.zero_grad()
                loss.backward()
                opt.step()
                losses.append(loss.item())
        return model.state_dict(), float(np.mean(losses))


def load_rows(path):
    data = np.load(path)
    x = torch.from_numpy(data["x"].astype(np.float32) / 255.0)
    return (x - 0.286) / 0.3, torch.from_numpy(data["y"].astype(np.int64))


def weighted_average(states, weights):
    total = sum(weights)
    return {key: sum(s[key] * (w / total) for s, w in zip(states, weights)) for key in states[0]}


@torch.no_grad()
def evaluate(model, x, y):
    model.eval()
    out = model(x)
    return F.cross_entropy(out, y).item(), (out.argmax(1) == y).float().mean().item()


def main():
    folder = Path(sys.argv[1])
    cfg = json.loads((folder / "federation.json").read_text())
    torch.manual_seed(17)
    sites = [Site(entry, folder, cfg) for entry in cfg["sites"]]
    tx, ty = load_rows(folder / "heldout.npz")
    model = nn.Sequential(nn.Linear(49, 96), nn.ReLU(), nn.Linear(96, 10))
    print("sites:", ", ".join(site.name for site in sites))
    for rnd in range(cfg["rounds"]):
        states, losses = zip(*(site.train(model) for site in sites))
        model.load_state_dict(weighted_average(states, [site.weight for site in sites]))
        loss, acc = evaluate(model, tx, ty)
        print(f"round {rnd:2d}: mean site loss {np.mean(losses):.3f} held-out loss {loss:.3f} accuracy {acc:.3f}")


if __name__ == "__main__":
    main()
