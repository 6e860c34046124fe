import csv
import os
import sys

import numpy as np

STATIONS = ["centrum", "harbour", "ringroad", "park", "airport"]


def write(dest, mode):
    os.makedirs(os.path.join(dest, "data"), exist_ok=True)
    for k, name in enumerate(STATIONS):
        rng = np.random.default_rng(100 + k)
        n = 1500
        t = np.arange(n)
        wind = np.abs(np.convolve(rng.normal(0, 3.2, n + 20), np.ones(12) / 5, "same")[:n]) + 0.5
        temp = 12 + 6 * np.sin(2 * np.pi * (t - 9) / 24) + np.convolve(rng.normal(0, 1, n + 50), np.ones(30) / 8, "same")[:n]
        traffic = np.exp(-0.5 * ((t % 24 - 8) / 2) ** 2) + 0.8 * np.exp(-0.5 * ((t % 24 - 18) / 2.5) ** 2)
        pm = np.zeros(n)
        level = 20.0 + 3 * k
        for i in range(n):
            level = 0.9 * level + 0.1 * (14 + 3 * k) + 5.5 * traffic[i] - 0.45 * wind[i] + rng.normal(0, 1.0)
            level = max(level, 2.0)
            pm[i] = level
        no2 = 15 + 30 * traffic - 1.2 * wind + rng.normal(0, 3, n)
        table = {"pm25": pm, "no2": no2, "temp": temp, "wind": wind}
        gone = {c: np.zeros(n, dtype=bool) for c in table}
        for c in ("pm25", "no2"):
            for _ in range(14):
                s = int(rng.integers(30, n - 30))
                gone[c][s:s + int(rng.integers(1, 6))] = True
        with open(os.path.join(dest, "data", f"{name}.csv"), "w", newline="") as fh:
            w = csv.writer(fh)
            w.writerow(["hour"] + list(table))
            for i in range(n):
                vals = []
                for c in table:
                    if gone[c][i]:
                        vals.append("-200" if mode == "bug" else "")
                    else:
                        vals.append(f"{table[c][i]:.2f}")
                w.writerow([i] + vals)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        write(sys.argv[1], sys.argv[2])
    else:
        here = os.path.dirname(os.path.abspath(__file__))
        for mode in ("bug", "ok"):
            write(os.path.join(here, mode), mode)
