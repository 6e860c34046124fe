import argparse
import os

import numpy as np
import pandas as pd
import torch
from torch import nn

WEATHER_COLS = ["temp_c", "wind_ms", "humidity", "rain_mm"]


class BikeDemand(nn.Module):
    def __init__(self, dim=6):
        super().__init__()
        self.hour = nn.Embedding(24, dim)
        self.weekday = nn.Embedding(7, dim)
        self.station = nn.Embedding(12, dim)
        self.net = nn.Sequential(
            nn.Linear(3 * dim + len(WEATHER_COLS), 64),
            nn.SiLU(),
            nn.Linear(64, 64),
            nn.SiLU(),
            nn.Linear(64, 1),
        )

    def forward(self, codes, weather):
        e = torch.cat([self.hour(codes[:, 0]), self.weekday(codes[:, 1]), self.station(codes[:, 2])], dim=1)
        return self.net(torch.cat([e, weather], dim=1)).squeeze(1)


def load_part(path):
    df = pd.read_csv(path)
    codes = torch.tensor(df[["hour", "weekday", "station"]].to_numpy(), dtype=torch.long)
    weather = torch.tensor(df[WEATHER_COLS].to_numpy(), dtype=torch.float32)
    return codes, weather, torch.tensor(np.log1p(df["rides"].to_numpy()), dtype=torch.float32)


def batches(n, size, generator):
    order = torch.randperm(n, generator=generator)
    for i in range(0, n, size):
        yield order[i:i + size]


def r_squared(model, codes, weather, y):
    model.eval()
    with torch.no_grad():
        pred = model(codes, weather)
    return 1 - ((y - pred) ** 2).sum().item() / ((y - y.mean()) ** 2).sum().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    folder = parser.parse_args().folder
    torch.manual_seed(42)
    gen = torch.Generator().manual_seed(42)

    codes, weather, y = load_part(os.path.join(folder, "rides_2022.csv"))
    v_codes, v_weather, v_y = load_part(os.path.join(folder, "rides_2023.csv"))
    mean, std = weather.mean(0), weather.std(0)
    weather, v_weather = (weather - mean) / std, (v_weather - mean) / std

    model = BikeDemand()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(12):
        model.train()
        losses = []
        for idx in batches(len(y), 128, gen):
            loss = nn.functional.mse_loss(model(codes[idx], weather[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        print(f"epoch {epoch + 1:02d} mse {np.mean(losses):.4f} R2 {r_squared(model, v_codes, v_weather, v_y):.4f}")
    print(f"R2 on 2023: {r_squared(model, v_codes, v_weather, v_y):.4f}")


if __name__ == "__main__":
    main()
