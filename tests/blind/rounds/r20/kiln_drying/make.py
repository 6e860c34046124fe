import csv
import numpy as np


def rows(rng, n, fahrenheit_share):
    out = []
    for _ in range(n):
        base = rng.uniform(60, 420)
        zones = base + rng.normal(0, 12, 4) + np.array([8, 0, -5, 3])
        gas = base / 40 + rng.normal(0, 3.5)
        humidity = rng.uniform(5, 60)
        hours = rng.uniform(1, 20)
        thick = rng.uniform(10, 45)
        rate = 1 / (1 + np.exp(-(zones.mean() - 220) / 55))
        moisture = 28 * np.exp(-rate * hours * 9 / (thick + 12)) * (1 + humidity / 120) + 6 * np.maximum(0, zones[0] - zones[2] - 15) / 15
        moisture += rng.normal(0, 0.5)
        if rng.random() < fahrenheit_share:
            zones = zones * 9 / 5 + 32
        out.append([*np.round(zones, 1), round(gas, 2), round(humidity, 1), round(hours, 2), round(thick, 1), round(moisture, 3)])
    return out


def write(path, data):
    with open(path, "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(["tc1", "tc2", "tc3", "tc4", "gas_m3h", "humidity", "hours", "thickness_mm", "moisture"])
        w.writerows(data)


for side, share in (("bug", 0.45), ("ok", 0.0)):
    rng = np.random.default_rng(31)
    write(f"{side}/train.csv", rows(rng, 3000, share))
    rng = np.random.default_rng(32)
    write(f"{side}/val.csv", rows(rng, 600, 0.0))
