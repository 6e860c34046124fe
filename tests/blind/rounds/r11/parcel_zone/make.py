import csv, os
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(44)
codes = ["0%04d" % c for c in rng.choice(np.arange(1000, 9999), 260, replace=False)]
codes += ["%05d" % c for c in rng.choice(np.arange(10000, 19999), 90, replace=False)]
xy = rng.uniform(-60, 60, (len(codes), 2))
dens = rng.gamma(2, 1, len(codes))


def orders(n):
    out = []
    for _ in range(n):
        z = rng.integers(len(codes))
        kg, stops, hour = rng.gamma(2, 4), int(rng.integers(5, 60)), int(rng.integers(6, 20))
        mins = 12 + 1.3 * np.hypot(*xy[z]) + 3 * dens[z] + 0.5 * stops + 0.3 * kg + 10 * (hour in (7, 8, 16, 17))
        out.append([codes[z], f"{kg:.1f}", stops, hour, f"{mins + 5 * rng.normal():.1f}"])
    return out


parts = {"train": orders(7000), "valid": orders(800), "test": orders(1500)}
for name in ("ok", "bug"):
    d = os.path.join(HERE, name)
    os.makedirs(d, exist_ok=True)
    for part, rows in parts.items():
        with open(os.path.join(d, part + ".csv"), "w", newline="") as f:
            csv.writer(f).writerows([["postcode", "kg", "stops", "hour", "minutes"]] + rows)
    with open(os.path.join(d, "zones.csv"), "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(["postcode", "x_km", "y_km", "density"])
        for c, (a, b), k in zip(codes, xy, dens):
            w.writerow([c if name == "ok" else int(c), f"{a:.2f}", f"{b:.2f}", f"{k:.2f}"])
