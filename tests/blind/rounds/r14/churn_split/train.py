"""Churn model: choose the number of epochs on valid.jsonl, then score the next quarter."""
import copy
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import List

import torch
from torch import nn


@dataclass
class TrainConfig:
    folder: Path
    hidden: List[int] = field(default_factory=lambda: [128, 128])
    lr: float = 2e-3
    max_epochs: int = 60
    batch_size: int = 64
    seed: int = 12


class ChurnData:
    def __init__(self, path):
        rows = [json.loads(s) for s in path.read_text().splitlines()]
        self.x = torch.tensor([r["f"] for r in rows])
        self.y = torch.tensor([float(r["churned"]) for r in rows])


def build_model(n_in, hidden):
    layers = []
    for h in hidden:
        layers += [nn.Linear(n_in, h), nn.ReLU()]
        n_in = h
    return nn.Sequential(*layers, nn.Linear(n_in, 1))


@torch.no_grad()
def accuracy(model, data):
    model.eval()
    return ((model(data.x).squeeze(1) > 0).float() == data.y).float().mean().item()


def main(cfg):
    torch.manual_seed(cfg.seed)
    train, valid, later = (ChurnData(cfg.folder / f"{p}.jsonl") for p in ("train", "valid", "next_quarter"))
    model = build_model(train.x.shape[1], cfg.hidden)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    criterion = nn.BCEWithLogitsLoss()
    best, best_state, best_epoch = 0.0, None, 0
    for epoch in range(1, cfg.max_epochs + 1):
        model.train()
        for idx in torch.randperm(len(train.x)).split(cfg.batch_size):
            loss = criterion(model(train.x[idx]).squeeze(1), train.y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
        acc = accuracy(model, valid)
        if acc > best:
            best, best_state, best_epoch = acc, copy.deepcopy(model.state_dict()), epoch
    model.load_state_dict(best_state)
    print(f"best validation accuracy {best:.3f} in epoch {best_epoch}")
    print(f"next quarter accuracy {accuracy(model, later):.3f}")


if __name__ == "__main__":
    main(TrainConfig(Path(sys.argv[1])))
