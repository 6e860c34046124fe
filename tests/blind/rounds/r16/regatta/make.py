import csv
from pathlib import Path
import numpy as np

HERE = Path(__file__).resolve().parent


def leg(n, rng):
    wind = rng.uniform(2, 15, n)
    angle = rng.uniform(30, 175, n)
    load = rng.uniform(0, 300, n)
    speed = 1.1 * wind ** 0.75 * np.sin(np.radians(angle)) ** 0.6 * (1 - 0.0006 * load) * np.where(wind > 11, 11 / wind, 1) ** 0.8
    return np.stack([wind, angle, load, speed + rng.normal(0, 0.12, n)], 1)


def write(path, rows):
    with open(path, "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(["wind", "angle", "load_kg", "boat_speed"])
        w.writerows([[f"{v:.3f}" for v in r] for r in rows])


for side in ("bug", "ok"):
    rng = np.random.default_rng(101)
    out = HERE / side
    (out / "logs").mkdir(parents=True, exist_ok=True)
    for b in range(6):
        rows = leg(250, rng)
        if side == "bug" and b in (1, 4, 5):
            rows[:, 0] *= 1.944
        write(out / "logs" / f"boat_{b}.csv", rows)
    write(out / "final_race.csv", leg(400, rng))
