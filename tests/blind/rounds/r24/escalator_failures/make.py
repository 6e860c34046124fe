import csv
import os

import numpy as np

N = 3600
ROOT = os.path.dirname(os.path.abspath(__file__))
HEADER = ["unit", "snapshot", "motor_current", "vibration", "chain_elongation", "handrail_slip", "gear_temp", "age_years",
          "passengers_k", "days_since_service", "open_orders", "outdoor", "failed_30d"]


def simulate(rng):
    age = rng.gamma(3.0, 4.0, N)
    outdoor = (rng.random(N) < 0.3).astype(int)
    passengers = rng.lognormal(2.3, 0.5, N)
    since = rng.integers(1, 120, N)
    wear = 0.05 * age + 0.004 * since + 0.02 * passengers + 0.4 * outdoor + rng.normal(0, 0.7, N)
    chain = 0.4 + 0.35 * wear + rng.normal(0, 0.2, N)
    vib = np.exp(0.3 + 0.35 * wear + rng.normal(0, 0.3, N))
    current = 11 + 0.15 * passengers + 0.8 * np.maximum(wear - 1, 0) + rng.normal(0, 0.8, N)
    slip = np.abs(rng.normal(0, 0.7, N)) + 0.25 * np.maximum(wear, 0)
    temp = 38 + 3.0 * wear - 5 * outdoor + rng.normal(0, 3.0, N)
    logit = -4.6 + 1.5 * wear + 1.2 * np.maximum(vib - 3, 0) * (chain > 1.1) + 0.5 * np.maximum(slip - 1.2, 0)
    failed = (rng.random(N) < 1 / (1 + np.exp(-logit))).astype(int)
    at_snapshot = rng.poisson(0.35 + 0.1 * np.maximum(wear, 0), N)
    later = rng.poisson(0.1, N) + failed * (2 + rng.poisson(1.2, N)) * (rng.random(N) < 0.97)
    day = np.datetime64("2023-01-02") + rng.integers(0, 360, N)
    return [[f"ESC-{i:04d}", str(day[i]), f"{current[i]:.2f}", f"{vib[i]:.3f}", f"{chain[i]:.3f}", f"{slip[i]:.3f}",
             f"{temp[i]:.1f}", f"{age[i]:.1f}", f"{passengers[i]:.2f}", since[i], None, outdoor[i], failed[i]]
            for i in range(N)], at_snapshot, later


def main():
    rows, at_snapshot, later = simulate(np.random.default_rng(660))
    for side in ("bug", "ok"):
        os.makedirs(os.path.join(ROOT, side), exist_ok=True)
        orders = at_snapshot + later if side == "bug" else at_snapshot
        with open(os.path.join(ROOT, side, "snapshots.csv"), "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(HEADER)
            for row, k in zip(rows, orders):
                w.writerow([int(k) if v is None else v for v in row])


if __name__ == "__main__":
    main()
