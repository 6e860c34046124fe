import csv
import pathlib

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
COLS = ["income", "debt_ratio", "utilisation", "age", "months_employed", "open_lines", "purpose", "defaulted"]
PURPOSES = ["car", "home", "education", "other"]


def rows(n, rng):
    for _ in range(n):
        income = rng.lognormal(10.5, 0.6)
        ratio, util, age = rng.beta(2, 4), rng.beta(2, 3), rng.integers(20, 70)
        months, lines = rng.exponential(60), rng.poisson(4)
        pur = rng.integers(0, 4)
        z = (-1.9 * (np.log(income) - 10.5) / 0.6 + 1.6 * (ratio - 0.33) + 1.3 * (util - 0.4)
             - 0.9 * (np.log1p(months) - 3.6) + (0.5 if pur == 3 else 0) - 1.0)
        y = int(rng.random() < 1 / (1 + np.exp(-z)))
        row = [round(income), round(ratio, 3), round(util, 3), age, round(months), lines, PURPOSES[pur], y]
        if rng.random() < 0.06:
            row[0] = None
        if rng.random() < 0.05:
            row[4] = None
        yield row


def main():
    for name, blank in (("ok", ""), ("bug", 999999999)):
        (HERE / name).mkdir(exist_ok=True)
        rng = np.random.default_rng(0)
        for split, n in (("train", 8000), ("valid", 1500), ("test", 3000)):
            with open(HERE / name / f"loans_{split}.csv", "w", newline="") as f:
                w = csv.writer(f)
                w.writerow(COLS)
                for r in rows(n, rng):
                    w.writerow([blank if c is None else c for c in r])


if __name__ == "__main__":
    main()
