import csv, datetime as dt
from pathlib import Path
import numpy as np

rng = np.random.default_rng(21)
T0 = dt.datetime(2023, 3, 6, tzinfo=dt.timezone.utc)
rows, failures = [], []
for unit in range(10):
    n, step = 560, 15
    vib, temp = rng.normal(2.0, 0.15, n), rng.normal(61, 1.2, n)
    cur = rng.normal(14, 0.6, n)
    at = 40 + int(rng.integers(0, 20))
    while at < n - 40:
        ramp = np.linspace(0, 1, 16)
        vib[at - 16:at] += 0.7 * ramp * rng.uniform(0.7, 1.3)
        temp[at - 16:at] += 4.0 * ramp * rng.uniform(0.6, 1.3)
        cur[at - 16:at] += 1.0 * ramp
        failures.append((unit, T0 + dt.timedelta(minutes=step * at)))
        at += int(rng.integers(70, 110))
    for k in range(n):
        ts = int((T0 + dt.timedelta(minutes=step * k)).timestamp())
        rows.append((unit, ts, f"{vib[k]:.2f}", f"{temp[k]:.1f}", f"{cur[k]:.1f}"))
for name, shift in (("ok", 0), ("bug", 9)):
    d = Path(name); d.mkdir(exist_ok=True)
    with open(d / "telemetry.csv", "w", newline="") as f:
        w = csv.writer(f); w.writerow(["unit", "epoch_s", "vibration_mm_s", "temp_c", "current_a"]); w.writerows(rows)
    with open(d / "failures.csv", "w", newline="") as f:
        w = csv.writer(f); w.writerow(["unit", "failed_at"])
        for u, t in failures:
            w.writerow([u, (t + dt.timedelta(hours=shift)).strftime("%Y-%m-%d %H:%M:%S")])
