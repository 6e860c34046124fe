from pathlib import Path
import numpy as np

HERE = Path(__file__).resolve().parent


def hours(n, rng):
    traffic = rng.gamma(3, 20, n)
    wind = rng.gamma(2, 2, n)
    temp = rng.normal(12, 8, n)
    no2 = 20 + 0.5 * traffic / (1 + 0.3 * wind) + rng.normal(0, 3, n)
    co = 0.3 + 0.01 * traffic + rng.normal(0, 0.05, n)
    humid = rng.uniform(30, 95, n)
    pm = 8 + 0.5 * no2 - 1.0 * wind + 0.1 * np.maximum(0, 5 - temp) * (humid / 20) + 6 * co + rng.normal(0, 1, n)
    return np.stack([traffic, wind, temp, no2, co, humid, pm], 1)


for side in ("bug", "ok"):
    rng = np.random.default_rng(12)
    out = HERE / side
    out.mkdir(exist_ok=True)
    train, test = hours(1500, rng), hours(500, rng)
    for col in (0, 1, 3, 4):
        for start in rng.integers(0, 1480, 5):
            n = rng.integers(6, 20)
            train[start:start + n, col] = -9999.0 if side == "bug" else np.median(train[:, col])
    head = "traffic,wind,temp,no2,co,humidity,pm25"
    np.savetxt(out / "station_2023.csv", train, delimiter=",", header=head, comments="", fmt="%.2f")
    np.savetxt(out / "station_2024.csv", test, delimiter=",", header=head, comments="", fmt="%.2f")
