"""Boat speed from wind, wind angle and load; trained on the logs of the fleet, judged on the final race."""
import csv
import sys
from pathlib import Path
import torch
import torch.nn as nn

FEATURES = ["wind", "angle", "load_kg"]


def read(path):
    with open(path) as f:
        rows = list(csv.DictReader(f))
    x = torch.tensor([[float(r[c]) for c in FEATURES] for r in rows])
    y = torch.tensor([float(r["boat_speed"]) for r in rows])
    return x, y


def main(folder):
    torch.manual_seed(1)
    parts = [read(p) for p in sorted((folder / "logs").glob("*.csv"))]
    x = torch.cat([p[0] for p in parts])
    y = torch.cat([p[1] for p in parts])
    mean, std = x.mean(0), x.std(0)
    norm = lambda a: (a - mean) / std
    net = nn.Sequential(nn.Linear(len(FEATURES), 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    xn = norm(x)
    for epoch in range(15):
        for rows in torch.randperm(len(x)).split(50):
            loss = nn.functional.mse_loss(net(xn[rows])[:, 0], y[rows])
            opt.zero_grad()
            loss.backward()
            opt.step()
        if epoch % 5 == 4:
            print(f"epoch {epoch + 1} mse {loss.item():.3f}")
    xt, yt = read(folder / "final_race.csv")
    with torch.no_grad():
        err = net(norm(xt))[:, 0] - yt
    print(f"final race RMSE {err.pow(2).mean().sqrt():.3f} m/s, R2 {1 - err.pow(2).mean() / yt.var():.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
