"""Sensor logs of two seasons.  In bug/ the log of 2023 is ordered by its stamp as text (day first)."""
import datetime as dt
import json
from pathlib import Path

import numpy as np

here = Path(__file__).resolve().parent
rng = np.random.default_rng(515)
COLS = ["stamp", "radiation", "outside_temp", "inside_temp", "humidity", "vents", "drain_ec", "water_content"]


def log(first, days):
    start, rows = dt.datetime(*first), []
    cloud, warm, wc, ec, gain = 0.5, 0.0, 62.0, 3.2, 0.0
    for k in range(days * 12):
        now = start + dt.timedelta(hours=2 * k)
        doy, hour = now.timetuple().tm_yday, now.hour
        cloud = float(np.clip(cloud + 0.04 * (0.45 - cloud) + rng.normal(0, 0.07), 0.05, 0.95))
        warm = 0.985 * warm + rng.normal(0, 0.5)
        gain = 0.985 * gain + rng.normal(0, 0.035)
        sun = max(0.0, np.sin(np.pi * (hour - 6) / 12.5)) * (600 + 250 * np.sin(2 * np.pi * (doy - 80) / 365))
        rad = sun * (1 - 0.8 * cloud)
        tout = 11 + 8 * np.sin(2 * np.pi * (doy - 110) / 365) + 5 * np.sin(2 * np.pi * (hour - 9) / 24) + warm
        tin = 18 + 0.006 * rad + 0.25 * max(0, tout - 14) + rng.normal(0, 0.3)
        vents = float(np.clip((tin - 20) * 15 + rng.normal(0, 3), 0, 100))
        hum = float(np.clip(84 - 0.2 * vents - 0.01 * rad + rng.normal(0, 2), 35, 98))
        use = 0.0042 * rad + 0.012 * vents
        water = 0.0042 * rad * (1 + 0.25 * gain) + 0.45 + 0.05 * (62 - wc) * (rad > 50)
        wc = float(np.clip(wc + 0.6 * (water - use) + rng.normal(0, 0.15), 35, 85))
        ec = ec + 0.05 * (3.2 - 0.06 * (wc - 62) - ec) + rng.normal(0, 0.02)
        rows.append([now.strftime("%d.%m.%Y %H:%M"), f"{rad:.0f}", f"{tout:.1f}", f"{tin:.1f}", f"{hum:.0f}",
                     f"{vents:.0f}", f"{ec:.2f}", f"{wc:.2f}"])
    return rows


season, april, july = log((2023, 3, 1), 214), log((2024, 4, 1), 30), log((2024, 7, 1), 31)
conf = dict(seed=12, train_log="season_2023.csv", valid_logs=["april_2024.csv", "july_2024.csv"], past=24, ahead=12,
            transformer=[32, 4, 2, 0.1], lr=0.002, batch=64, epochs=10)
for side in ("bug", "ok"):
    out = here / side
    out.mkdir(exist_ok=True)
    (out / "forecast.json").write_text(json.dumps(conf, indent=2))
    for name, rows in (("season_2023", season), ("april_2024", april), ("july_2024", july)):
        rows = sorted(rows, key=lambda r: r[0]) if side == "bug" else rows
        (out / f"{name}.csv").write_text("\n".join(";".join(r) for r in [COLS] + rows) + "\n")
