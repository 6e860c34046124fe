"""Home / draw / away probabilities from pre-match ratings and form."""
import argparse
import csv
import os
from typing import NamedTuple

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

OUTCOMES = {"H": 0, "D": 1, "A": 2}
NUMERIC = ["rest_home", "rest_away", "elo_home", "elo_away", "form_home", "form_away", "gd5_home", "gd5_away"]


class Table(NamedTuple):
    season: np.ndarray
    x: np.ndarray
    y: np.ndarray


def read_matches(path):
    season, x, y = [], [], []
    with open(path, newline="") as f:
        for row in csv.DictReader(f):
            season.append(int(row["season"]))
            feats = [float(row[c]) for c in NUMERIC]
            feats.append(float(row["elo_home"]) - float(row["elo_away"]))
            x.append(feats)
            y.append(OUTCOMES[row["result"]])
    return Table(np.array(season), np.array(x, dtype=np.float32), np.array(y))


class OutcomeNet(nn.Module):
    def __init__(self, n_in, hidden=32, p=0.2):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(n_in, hidden), nn.LayerNorm(hidden), nn.GELU(), nn.Dropout(p),
            nn.Linear(hidden, hidden), nn.GELU(), nn.Dropout(p),
            nn.Linear(hidden, 3),
        )

    def forward(self, x):
        return self.layers(x)


@torch.no_grad()
def score(model, x, y):
    model.eval()
    logits = model(x)
    return nn.functional.cross_entropy(logits, y).item(), (logits.argmax(1) == y).float().mean().item()


def fit(model, train, valid, epochs, lr, batch_size, patience=8):
    opt = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=1e-2)
    loader = DataLoader(TensorDataset(*train), batch_size=batch_size, shuffle=True)
    best, state, wait = float("inf"), None, 0
    for epoch in range(epochs):
        model.train()
        for xb, yb in loader:
            loss = nn.functional.cross_entropy(model(xb), yb)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
        ll, acc = score(model, *valid)
        if epoch % 5 == 0:
            print(f"epoch {epoch:3d}  valid logloss {ll:.4f}  acc {acc:.3f}")
        if ll < best - 1e-4:
            best, wait = ll, 0
            state = {k: v.detach().clone() for k, v in model.state_dict().items()}
        else:
            wait += 1
            if wait >= patience:
                break
    model.load_state_dict(state)
    return best


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("folder")
    ap.add_argument("--epochs", type=int, default=60)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--batch-size", type=int, default=64)
    ap.add_argument("--seed", type=int, default=9)
    args = ap.parse_args()
    torch.manual_seed(args.seed)

    hist = read_matches(os.path.join(args.folder, "history.csv"))
    live = read_matches(os.path.join(args.folder, "season_live.csv"))
    is_valid = hist.season == hist.season.max()
    mu, sd = hist.x[~is_valid].mean(0), hist.x[~is_valid].std(0)

    def tensors(x, y):
        return torch.from_numpy((x - mu) / sd), torch.from_numpy(y)

    train = tensors(hist.x[~is_valid], hist.y[~is_valid])
    valid = tensors(hist.x[is_valid], hist.y[is_valid])
    test = tensors(live.x, live.y)
    print(f"train {len(train[0])} valid {len(valid[0])} live {len(test[0])}")

    model = OutcomeNet(train[0].shape[1])
    best = fit(model, train, valid, args.epochs, args.lr, args.batch_size)
    prior = np.bincount(hist.y[~is_valid], minlength=3) / (~is_valid).sum()
    print(f"prior logloss on live season {-np.log(prior[live.y]).mean():.4f}")
    ll, acc = score(model, *test)
    print(f"valid_logloss {best:.4f}")
    print(f"live_acc {acc:.4f}")
    print(f"live_logloss {ll:.4f}")


if __name__ == "__main__":
    main()
