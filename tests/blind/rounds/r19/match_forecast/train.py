"""Home win / draw / away win forecasts from team strength embeddings."""
import csv
import logging
import sys
import tomllib
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

logger = logging.getLogger("forecast")
CONTEXT = ["rest_home", "rest_away", "out_home", "out_away", "form_home", "form_away"]


def load_matches(path):
    with open(path, newline="") as f:
        rows = list(csv.DictReader(f))
    teams = sorted({r["home"] for r in rows} | {r["away"] for r in rows})
    index = {t: i for i, t in enumerate(teams)}
    pair = np.array([[index[r["home"]], index[r["away"]]] for r in rows])
    context = np.array([[float(r[c]) for c in CONTEXT] for r in rows], dtype=np.float32)
    diff = np.array([int(r["goals_home"]) - int(r["goals_away"]) for r in rows])
    outcome = np.where(diff > 0, 0, np.where(diff == 0, 1, 2))
    season = np.array([int(r["season"]) for r in rows])
    return teams, pair, context, outcome, season


class Forecaster(nn.Module):
    def __init__(self, n_teams, n_context, team_dim, hidden, dropout):
        super().__init__()
        self.home = nn.Embedding(n_teams, team_dim)
        self.away = nn.Embedding(n_teams, team_dim)
        nn.init.normal_(self.home.weight, std=0.3)
        nn.init.normal_(self.away.weight, std=0.3)
        self.net = nn.Sequential(nn.Linear(2 * team_dim + n_context, hidden), nn.ReLU(), nn.Dropout(dropout),
                                 nn.Linear(hidden, 3))

    def forward(self, pair, context):
        x = torch.cat([self.home(pair[:, 0]), self.away(pair[:, 1]), context], dim=1)
        return self.net(x)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    nll, hit, n = 0.0, 0, 0
    for pair, context, y in loader:
        logits = model(pair, context)
        nll += F.cross_entropy(logits, y, reduction="sum").item()
        hit += (logits.argmax(1) == y).sum().item()
        n += len(y)
    return nll / n, hit / n


def main():
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s", datefmt="%H:%M:%S")
    folder = Path(sys.argv[1])
    cfg = tomllib.loads((folder / "config.toml").read_text())
    torch.manual_seed(cfg["seed"])
    teams, pair, context, outcome, season = load_matches(folder / cfg["data"]["matches"])
    past = season < cfg["data"]["first_test_season"]
    context = (context - context[past].mean(0)) / context[past].std(0)
    tensors = [torch.as_tensor(a) for a in (pair, context, outcome)]
    past = torch.from_numpy(past)
    o = cfg["optim"]
    train = DataLoader(TensorDataset(*[t[past] for t in tensors]), batch_size=o["batch_size"], shuffle=True)
    test = DataLoader(TensorDataset(*[t[~past] for t in tensors]), batch_size=500)
    base = torch.bincount(tensors[2][past]).float()
    prior = base / base.sum()
    logger.info("%d teams, %d past matches, prior %s", len(teams), int(past.sum()), prior.numpy().round(3))

    model = Forecaster(len(teams), len(CONTEXT), **cfg["model"])
    opt = torch.optim.SGD(model.parameters(), lr=o["lr"], momentum=o["momentum"], weight_decay=o["weight_decay"])
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, o["epochs"])
    for epoch in range(o["epochs"]):
        model.train()
        total, n = 0.0, 0
        for p, c, y in train:
            loss = F.cross_entropy(model(p, c), y)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), o["clip_norm"])
            opt.step()
            total, n = total + loss.item() * len(y), n + len(y)
        sched.step()
        if epoch % 3 == 0:
            nll, acc = evaluate(model, test)
            logger.info("epoch %d train %.4f test nll %.4f acc %.4f", epoch, total / n, nll, acc)
    nll, acc = evaluate(model, test)
    y = tensors[2][~past]
    print(f"test nll {nll:.4f} accuracy {acc:.4f} (prior nll {-prior[y].log().mean():.4f}, "
          f"home-win accuracy {(y == 0).float().mean():.4f})")


if __name__ == "__main__":
    main()
