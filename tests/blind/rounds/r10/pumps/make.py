import os

import numpy as np
import pandas as pd

TOML = """[files]
train = ["depot_north.csv", "depot_east.csv", "depot_port.csv"]
valid = ["valid.csv"]

[columns]
inputs = ["load_pct", "fluid_temp", "vibration", "starts_per_day"]
model = "pump_model"
time = "hours"
status = "status"

[train]
seed = 2
hidden = 24
lr = 0.005
decay = 0.95
batch = 100
epochs = 24
"""


def depot(n, seed):
    rng = np.random.default_rng(seed)
    load = rng.uniform(30, 110, n)
    temp = rng.normal(60, 10, n)
    vib = rng.gamma(3, 0.8, n)
    starts = rng.poisson(4, n)
    kind = rng.choice(["K20", "K35", "M7"], n)
    log_scale = (9.2 - 0.02 * (load - 70) - 0.03 * (temp - 60) - 0.35 * (vib - 2.4) - 0.05 * starts
                 + pd.Series(kind).map({"K20": 0.0, "K35": 0.35, "M7": -0.3}).to_numpy())
    life = np.exp(log_scale) * rng.weibull(1.7, n)
    watch = rng.uniform(800, 6000, n)
    return pd.DataFrame({"pump": [f"P{seed}-{i:04d}" for i in range(n)], "pump_model": kind,
                         "load_pct": load.round(1), "fluid_temp": temp.round(1), "vibration": vib.round(2),
                         "starts_per_day": starts, "hours": np.minimum(life, watch).round(1).clip(1),
                         "status": (life <= watch).astype(int)})


def main():
    for side in ("bug", "ok"):
        os.makedirs(side, exist_ok=True)
        for i, name in enumerate(("depot_north", "depot_east", "depot_port")):
            t = depot(1200, 20 + i)
            if side == "bug" and name != "depot_north":
                t["status"] = 1 - t["status"]  # these depots write 1 = still in service
            t.to_csv(f"{side}/{name}.csv", index=False)
        depot(1000, 50).to_csv(f"{side}/valid.csv", index=False)
        open(f"{side}/pumps.toml", "w").write(TOML)


if __name__ == "__main__":
    main()
