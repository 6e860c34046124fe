"""Writes bug/ and ok/: calls of a double-ended ferry line, taken from the port call database."""
import csv
import json
import os

import numpy as np

QUAYS = ["Harwick", "Skerra", "Lundey", "Port Ellan", "Norvoe"]
SHIPS = ["Asta", "Borgny", "Cecilie", "Dagrun", "Eirin", "Frida"]
COLUMNS = ["call", "day", "quay", "ship", "cars", "lorries", "foot_pax", "wind_ms", "tide_m", "linesmen", "ramp_moves", "turnaround_min"]


def calls(n, seed):
    rng = np.random.default_rng(seed)
    quay, ship = rng.integers(0, 5, n), rng.integers(0, 6, n)
    cars, lorries = rng.poisson(45, n), rng.poisson(9, n)
    foot = rng.poisson(120, n)
    wind = rng.gamma(3.0, 2.4, n)
    tide = rng.uniform(-1.6, 1.6, n)
    linesmen = rng.integers(2, 6, n)
    slow_quay = np.array([0.0, 3.5, 1.0, 5.5, 2.0])[quay]
    slow_ship = np.array([0.0, 1.5, -1.0, 3.0, 0.5, 2.0])[ship]
    trouble = rng.gamma(2.0, 2.4, n)
    minutes = (9 + slow_quay + slow_ship + 0.16 * cars + 0.55 * lorries + 0.01 * foot + 0.05 * np.maximum(wind - 9, 0) ** 2
               + 2.2 * tide ** 2 - 1.6 * (linesmen - 2) + trouble + rng.normal(0, 0.8, n))
    need = 6 + 0.25 * lorries + 1.2 * np.abs(tide)
    planned = np.round(need + rng.normal(0, 1.5, n)).clip(1)
    final = np.round(need + 0.9 * trouble + rng.normal(0, 0.7, n)).clip(1)
    day = np.sort(rng.integers(0, 360, n))
    table = dict(call=np.arange(n), day=day, quay=[QUAYS[i] for i in quay], ship=[SHIPS[i] for i in ship], cars=cars, lorries=lorries,
                 foot_pax=foot, wind_ms=wind.round(1), tide_m=tide.round(2), linesmen=linesmen,
                 turnaround_min=minutes.clip(5).round(1))
    return table, planned.astype(int), final.astype(int)


def write(folder, ramp_from_log, n=3600, seed=71):
    os.makedirs(folder, exist_ok=True)
    table, planned, final = calls(n, seed)
    table["ramp_moves"] = final if ramp_from_log else planned
    with open(os.path.join(folder, "port_calls.csv"), "w", newline="") as f:
        out = csv.writer(f)
        out.writerow(COLUMNS)
        out.writerows(zip(*[table[c] for c in COLUMNS]))
    with open(os.path.join(folder, "settings.json"), "w") as f:
        json.dump({"target": "turnaround_min", "categories": ["quay", "ship"],
                   "numbers": ["cars", "lorries", "foot_pax", "wind_ms", "tide_m", "linesmen", "ramp_moves"],
                   "first_validation_day": 288, "epochs": 16, "lr": 0.003, "seed": 4}, f, indent=1)


if __name__ == "__main__":
    write("ok", ramp_from_log=False)
    write("bug", ramp_from_log=True)
