import argparse
import pathlib

import numpy as np
import pandas as pd
import torch
import yaml
from sklearn.neighbors import NearestNeighbors
from torch import nn

COLS = ["rooms", "area_m2", "floor", "year_built", "balcony", "dist_center_km", "noise_db"]


def neighbour_index(folder, frame, k):
    """Row numbers of the k nearest flats of the training part, for every flat."""
    path = folder / "neighbours.npy"
    if path.exists():
        return np.load(path)
    pool = np.flatnonzero(frame["part"] == "train")
    search = NearestNeighbors(n_neighbors=k + 1).fit(frame.loc[pool, ["lat", "lon"]])
    found = pool[search.kneighbors(frame[["lat", "lon"]], return_distance=False)]
    rows = [[j for j in line if j != i][:k] for i, line in enumerate(found)]
    np.save(path, np.array(rows))
    return np.array(rows)


class NeighbourNet(nn.Module):
    """Own attributes plus attention over attributes and rents of the neighbours."""

    def __init__(self, d, hidden):
        super().__init__()
        self.own = nn.Linear(d, hidden)
        self.other = nn.Linear(d + 1, hidden)
        self.out = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, x, nx, ny):
        h = torch.relu(self.own(x))
        o = torch.relu(self.other(torch.cat([nx, ny.unsqueeze(-1)], -1)))
        w = torch.softmax((o * h.unsqueeze(1)).sum(-1) / h.shape[1] ** 0.5, 1)
        return self.out(torch.cat([h, (w.unsqueeze(-1) * o).sum(1)], 1)).squeeze(1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("folder", type=pathlib.Path)
    folder = ap.parse_args().folder
    cfg = yaml.safe_load((folder / "model.yaml").read_text())
    torch.manual_seed(cfg["seed"])
    frame = pd.read_csv(folder / "flats.csv")
    near = torch.from_numpy(neighbour_index(folder, frame, cfg["neighbours"]))
    rows = {p: torch.from_numpy(np.flatnonzero(frame["part"] == p)) for p in ("train", "valid", "test")}
    values = frame[COLS].to_numpy(np.float32)
    ref = values[rows["train"].numpy()]
    x = torch.from_numpy((values - ref.mean(0)) / ref.std(0))
    rent = torch.from_numpy(np.log(frame["rent_m2"].to_numpy(np.float32)))
    mean, std = rent[rows["train"]].mean(), rent[rows["train"]].std()
    y = (rent - mean) / std

    net = NeighbourNet(len(COLS), cfg["hidden"])
    opt = torch.optim.Adam(net.parameters(), lr=cfg["lr"], weight_decay=1e-5)

    def predict(r):
        return net(x[r], x[near[r]], y[near[r]])

    def score(part):
        net.eval()
        with torch.no_grad():
            p, t = predict(rows[part]), y[rows[part]]
        return (1 - ((p - t) ** 2).sum() / ((t - t.mean()) ** 2).sum()).item()

    for epoch in range(cfg["epochs"]):
        net.train()
        losses = []
        for r in rows["train"][torch.randperm(len(rows["train"]))].split(cfg["batch_size"]):
            loss = nn.functional.huber_loss(predict(r), y[r])
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        if epoch % 5 == 4:
            print(f"{epoch + 1:3d} loss {np.mean(losses):.4f} valid r2 {score('valid'):.4f}")
    print(f"test r2 {score('test'):.4f}")


if __name__ == "__main__":
    main()
