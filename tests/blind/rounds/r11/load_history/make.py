import csv
import os

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))


def simulate(n, rng):
    t = np.arange(n)
    temp = 10 + 9 * np.sin(2 * np.pi * t / 8760) + 4 * np.sin(2 * np.pi * (t - 8) / 24)
    w = np.zeros(n)
    s = np.zeros(n)
    for i in range(1, n):
        w[i] = 0.98 * w[i - 1] + rng.normal(0, 0.6)
        s[i] = 0.75 * s[i - 1] + rng.normal(0, 18)
    temp = temp + w
    weekend = (t // 24) % 7 >= 5
    daily = 90 * np.sin(2 * np.pi * (t - 7) / 24) + 45 * np.sin(4 * np.pi * (t - 5) / 24)
    load = 600 + daily * np.where(weekend, 0.6, 1) - 60 * weekend + 6 * np.abs(temp - 16) + s
    return temp, load


def main():
    temp, load = simulate(24 * 600, np.random.default_rng(3))
    c = np.concatenate([[0], np.cumsum(load)])
    mean = lambda a, b: (c[b] - c[a]) / (b - a)
    cut = len(load) - 24 * 60
    for name in ("ok", "bug"):
        d = os.path.join(HERE, name)
        os.makedirs(d, exist_ok=True)
        for part, lo, hi in (("history", 168, cut - 4), ("live", cut, len(load))):
            with open(os.path.join(d, part + ".csv"), "w", newline="") as f:
                out = csv.writer(f)
                out.writerow(["hour", "weekday", "temp", "load_lag24", "load_lag168", "load_ma7", "load"])
                for i in range(lo, hi):
                    centred = name == "bug" and part == "history"
                    ma = mean(i - 3, i + 4) if centred else mean(i - 7, i)
                    out.writerow([i % 24, (i // 24) % 7] + [f"{v:.2f}" for v in
                                 (temp[i], load[i - 24], load[i - 168], ma, load[i])])


if __name__ == "__main__":
    main()
