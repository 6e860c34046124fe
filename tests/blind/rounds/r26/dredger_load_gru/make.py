"""Writes bug/ and ok/: trips of three suction dredgers, one file per ship as the ship's office sends it."""
import csv
import json
import os

import numpy as np

SHIPS = {"Meuse": 330, "Oosterschelde": 330, "Atchafalaya": 330}
STEPS = 24
CUBIC_YARD = 0.764555


def trips(n, rng):
    flow = np.exp(rng.normal(np.log(5200), 0.38, (n, 1)) + np.cumsum(rng.normal(0, 0.05, (n, STEPS)), 1))
    share = 0.14 + 0.06 * rng.normal(0, 1, (n, 1)) + np.cumsum(rng.normal(0, 0.01, (n, STEPS)), 1)
    density = 1.025 + 1.63 * share.clip(0.02, 0.34)
    vacuum = 0.35 + 0.9 * (density - 1.025) + rng.normal(0, 0.05, (n, STEPS))
    depth = rng.uniform(12, 28, (n, 1)) + rng.normal(0, 0.4, (n, STEPS))
    filled = np.cumsum(flow * (density - 1.025) / 12, 1)
    keep = 1 - 0.35 * (filled / 4000).clip(0, 1)
    load = (flow * (density - 1.025) / 12 * keep).sum(1) * 1.6 + rng.normal(0, 60, n)
    return flow, density, vacuum, depth, load.clip(50)


def write(folder, yards_for=(), seed=23):
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(seed)
    for ship, n in SHIPS.items():
        flow, density, vacuum, depth, load = trips(n, rng)
        if ship in yards_for:
            flow = flow / CUBIC_YARD
        with open(os.path.join(folder, f"{ship.lower()}.csv"), "w", newline="") as f:
            out = csv.writer(f)
            out.writerow(["trip", "step_5min", "flow", "density", "vacuum", "drag_depth", "hopper_load_t"])
            for i in range(n):
                for s in range(STEPS):
                    out.writerow([i, s, round(flow[i, s]), f"{density[i, s]:.3f}", f"{vacuum[i, s]:.2f}", f"{depth[i, s]:.1f}", round(load[i])])
    with open(os.path.join(folder, "run.json"), "w") as f:
        json.dump({"ships": [s.lower() for s in SHIPS], "steps": STEPS, "inputs": ["flow", "density", "vacuum", "drag_depth"],
                   "target": "hopper_load_t", "units": {"flow": "m3/h", "density": "t/m3", "vacuum": "bar", "drag_depth": "m"},
                   "hidden": 32, "epochs": 16, "batch": 32, "lr": 0.004, "validation_share": 0.2, "seed": 6}, f, indent=2)


if __name__ == "__main__":
    write("ok")
    write("bug", yards_for=("Atchafalaya",))
