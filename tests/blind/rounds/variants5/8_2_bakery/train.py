import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import nn


class DemandNet(nn.Module):
    def __init__(self, n_stores, n_days, n_num, dim, width):
        super().__init__()
        self.store = nn.Embedding(n_stores, dim)
        self.day = nn.Embedding(n_days, dim)
        self.mlp = nn.Sequential(nn.Linear(2 * dim + n_num, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, store, day, num):
        return self.mlp(torch.cat([self.store(store), self.day(day), num], 1)).squeeze(1)


class Part:
    def __init__(self, frame, numeric, mean, std, y_mean, y_std):
        self.store = torch.tensor(frame["store"].to_numpy())
        self.day = torch.tensor(frame["date"].dt.day_of_week.to_numpy()).long()
        self.num = torch.tensor(((frame[numeric] - mean) / std).to_numpy(np.float32))
        self.y = torch.tensor(((frame["sold"] - y_mean) / y_std).to_numpy(np.float32))

    def __len__(self):
        return len(self.y)

    def take(self, rows):
        return (self.store[rows], self.day[rows], self.num[rows]), self.y[rows]


def r_squared(net, part):
    net.eval()
    with torch.no_grad():
        inputs, y = part.take(torch.arange(len(part)))
        return (1 - (net(*inputs) - y).pow(2).sum() / (y - y.mean()).pow(2).sum()).item()


def build(folder, cfg):
    sales = pd.read_csv(folder / "sales.csv", parse_dates=["date"])
    history = pd.read_csv(folder / "history_features.csv", parse_dates=["date"])
    frame = sales.merge(history, on=["date", "store"], validate="one_to_one").dropna()
    numeric = [c for c in frame if c not in ("date", "store", "sold")]
    train = frame[frame.date < cfg["valid_from"]]
    valid = frame[(frame.date >= cfg["valid_from"]) & (frame.date < cfg["test_from"])]
    test = frame[frame.date >= cfg["test_from"]]
    stats = (train[numeric].mean(), train[numeric].std(), train["sold"].mean(), train["sold"].std())
    return [Part(p, numeric, *stats) for p in (train, valid, test)], len(numeric), int(frame["store"].max()) + 1


def main(folder):
    cfg = json.loads((folder / "forecast.json").read_text())
    torch.manual_seed(cfg["seed"])
    (train, valid, test), n_num, n_stores = build(folder, cfg)
    net = DemandNet(n_stores, 7, n_num, cfg["dim"], cfg["width"])
    opt = torch.optim.AdamW(net.parameters(), lr=cfg["lr"], weight_decay=1e-3)
    best, kept = -np.inf, None
    for epoch in range(cfg["epochs"]):
        net.train()
        losses = []
        for rows in torch.randperm(len(train)).split(cfg["batch_size"]):
            inputs, y = train.take(rows)
            loss = nn.functional.mse_loss(net(*inputs), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        now = r_squared(net, valid)
        if now > best:
            best, kept = now, {k: v.clone() for k, v in net.state_dict().items()}
        if (epoch + 1) % 3 == 0:
            print(f"epoch {epoch + 1} loss {np.mean(losses):.4f} valid r2 {now:.4f}")
    net.load_state_dict(kept)
    print(f"test r2 {r_squared(net, test):.4f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
