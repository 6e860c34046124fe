"""Power of a solar plant from the weather of a nearby station."""
import argparse
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import yaml
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WEATHER = ["ghi", "dni", "temperature", "humidity", "wind", "cloud"]


def read_weather(folder, site):
    weather = pd.read_csv(folder / "weather.csv", parse_dates=["time"])
    weather["time_utc"] = weather["time"] - pd.Timedelta(hours=site["weather_utc_offset_hours"])
    return weather.drop(columns="time")


def read_power(folder):
    return pd.read_csv(folder / "power.csv", parse_dates=["time_utc"])


def assemble(folder, site):
    table = read_power(folder).merge(read_weather(folder, site), on="time_utc").sort_values("time_utc").reset_index(drop=True)
    for name in ("ghi", "cloud"):
        table[f"{name}_before"] = table[name].shift(1)
    return table.dropna()


def splits(table):
    days = table["time_utc"].dt.normalize().unique()
    a, b = days[int(0.7 * len(days))], days[int(0.85 * len(days))]
    return table[table.time_utc < a], table[(table.time_utc >= a) & (table.time_utc < b)], table[table.time_utc >= b]


class PlantModel(nn.Module):
    def __init__(self, n_in, width):
        super().__init__()
        self.hidden = nn.Sequential(nn.Linear(n_in, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.mean = nn.Linear(width, 1)

    def forward(self, x):
        return self.mean(self.hidden(x)).squeeze(1)


def score(model, x, y):
    model.eval()
    with torch.no_grad():
        return 1 - ((model(x) - y) ** 2).sum().item() / ((y - y.mean()) ** 2).sum().item()


def main():
    cli = argparse.ArgumentParser()
    cli.add_argument("folder", type=Path)
    folder = cli.parse_args().folder
    cfg = yaml.safe_load((folder / "plant.yaml").read_text())
    torch.manual_seed(cfg["seed"])
    parts = splits(assemble(folder, cfg["site"]))
    columns = WEATHER + ["ghi_before", "cloud_before"]
    mean, std = parts[0][columns].mean(), parts[0][columns].std()
    capacity = cfg["site"]["capacity_kw"]
    data = [(torch.tensor(((p[columns] - mean) / std).to_numpy(np.float32)), torch.tensor((p["power_kw"] / capacity).to_numpy(np.float32))) for p in parts]
    loader = DataLoader(TensorDataset(*data[0]), batch_size=cfg["batch_size"], shuffle=True)
    model = PlantModel(len(columns), cfg["width"])
    opt = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
    for epoch in range(cfg["epochs"]):
        model.train()
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        if epoch % 3 == 2:
            print(f"epoch {epoch + 1} last loss {loss.item():.5f} valid r2 {score(model, *data[1]):.4f}")
    print(f"test r2 {score(model, *data[2]):.4f}")


if __name__ == "__main__":
    main()
