"""Downy mildew warning for hop yards: will spore traps exceed the spray threshold after ten days of weather?"""
import csv
import io
import math
import random

import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim

DAYS = 10
SENSORS = ["temp_c", "rain_mm", "leaf_wet_h", "rel_humidity"]


def station_export(n, seed):
    """One text table as the weather station service exports it: one row per yard and period."""
    rnd = random.Random(seed)
    buf = io.StringIO()
    out = csv.writer(buf)
    out.writerow(["yard", "cultivar"] + [f"{s}_{d}" for d in range(DAYS) for s in SENSORS] + ["spray_needed"])
    for i in range(n):
        base = rnd.gauss(16, 3.5)
        wet = rnd.random()
        susceptible = rnd.random() < 0.4
        pressure, row = 0.0, []
        for _ in range(DAYS):
            temp = rnd.gauss(base, 2.0)
            rain = rnd.expovariate(0.2) if rnd.random() < 0.15 + 0.5 * wet else 0.0
            leaf = min(24.0, max(0.0, 3 + 1.1 * rain + rnd.gauss(2, 2)))
            hum = min(100.0, 58 + 25 * wet + 1.2 * leaf * 0.5 + rnd.gauss(0, 4))
            favour = math.exp(-((temp - 18) / 4) ** 2)
            pressure = 0.82 * pressure + favour * max(0.0, leaf - 5) / 6
            row += [f"{temp:.1f}", f"{rain:.1f}", f"{leaf:.1f}", f"{hum:.0f}"]
        spores = pressure * (1.5 if susceptible else 1.0) * math.exp(rnd.gauss(0, 0.12))
        cultivar = rnd.choice(["Hersbrucker", "Saazer"]) if susceptible else rnd.choice(["Perle", "Magnum"])
        out.writerow([f"Y{i:04d}", cultivar] + row + [spores > 1.55])
    return buf.getvalue()


def parse(text):
    weather, plant, spray = [], [], []
    for row in csv.DictReader(io.StringIO(text)):
        weather.append([[float(row[f"{s}_{d}"]) for d in range(DAYS)] for s in SENSORS])
        plant.append(1.0 if row["cultivar"] in ("Hersbrucker", "Saazer") else 0.0)
        spray.append(row["spray_needed"] == "True")
    return np.array(weather, dtype=np.float32), np.array(plant, dtype=np.float32), np.array(spray, dtype=np.float32)


class MildewNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(len(SENSORS), 24, 3, padding=1), nn.ReLU(),
            nn.Conv1d(24, 24, 3, padding=1), nn.ReLU(),
        )
        self.top = nn.Sequential(nn.Linear(24 * DAYS + 1, 48), nn.ReLU(), nn.Dropout(0.2), nn.Linear(48, 1))

    def forward(self, weather, plant):
        h = self.conv(weather).flatten(1)
        return self.top(torch.cat([h, plant.unsqueeze(1)], dim=1)).squeeze(1)


def run(seed=4, n=2200, epochs=8, batch=50):
    torch.manual_seed(seed)
    weather, plant, spray = parse(station_export(n, seed))
    n_train = int(0.75 * n)
    mu = weather[:n_train].mean(axis=(0, 2), keepdims=True)
    sd = weather[:n_train].std(axis=(0, 2), keepdims=True)
    w = torch.from_numpy((weather - mu) / sd)
    p, s = torch.from_numpy(plant), torch.from_numpy(spray)

    net = MildewNet()
    criterion = nn.BCEWithLogitsLoss()
    optimizer = optim.Adam(net.parameters(), lr=2e-3, weight_decay=1e-4)
    for epoch in range(epochs):
        net.train()
        perm = torch.randperm(n_train)
        running = 0.0
        for k in range(0, n_train, batch):
            rows = perm[k:k + batch]
            optimizer.zero_grad()
            loss = criterion(net(w[rows], p[rows]), s[rows])
            loss.backward()
            optimizer.step()
            running += loss.item() * len(rows)
        net.eval()
        with torch.no_grad():
            logit = net(w[n_train:], p[n_train:])
            val_loss = criterion(logit, s[n_train:]).item()
            correct = ((logit > 0) == (s[n_train:] > 0.5)).float().mean().item()
        print(f"epoch {epoch + 1:2d}: train {running / n_train:.4f}  val {val_loss:.4f}  correct warnings {correct:.3f}")
    return net, (mu, sd)


if __name__ == "__main__":
    run()
