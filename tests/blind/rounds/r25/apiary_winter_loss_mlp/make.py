"""Builds the winter-loss tables of a beekeepers' association from its inspection records."""
import csv
import os

import numpy as np

rng = np.random.default_rng(811)
SITES = ["lindenhof", "moorwiese", "auenwald", "kiesgrube", "klostergarten", "hochfeld"]
HEAD = ["site", "queen_age_months", "mites_per_100", "stores_kg", "treatments", "hive_insulated",
        "frames_of_bees", "pollen_frames", "sun_hours_sept", "lost"]


def colonies(n):
    out = []
    for _ in range(n):
        site = int(rng.integers(len(SITES)))
        queen = float(rng.gamma(3.0, 5.5))
        treat = int(rng.integers(0, 4))
        mites = float(rng.gamma(2.2, 2.0) * (1.6 - 0.3 * treat))
        stores = float(rng.normal(17.0, 3.2))
        insul = int(rng.random() < 0.4)
        frames = float(np.clip(rng.normal(9.5 - 0.04 * queen, 2.0), 3.0, 16.0))
        pollen = float(np.clip(rng.normal(1.8, 0.7), 0, 5))
        sun = float(rng.normal(165, 20))
        z = (0.55 * (mites - 4.0) + 0.07 * (queen - 15) - 0.38 * (stores - 17) - 0.55 * (frames - 9)
             - 0.8 * insul - 0.5 * (pollen - 1.8) - 1.1 + 0.5 * (site in (1, 3)))
        lost = int(rng.random() < 1 / (1 + np.exp(-1.3 * z)))
        visits = [("2023-09-12", round(frames + rng.normal(1.0, 0.6), 1)), ("2023-10-14", round(frames, 1))]
        spring = 0.72 * frames + rng.normal(0, 0.9)
        if lost:
            spring = abs(rng.normal(0, 0.35))
        if rng.random() < 0.97:
            visits.append(("2024-03-20", round(max(spring, 0.0), 1)))
        out.append((SITES[site], round(queen, 1), round(mites, 1), round(stores, 1), treat, insul, visits,
                    round(pollen, 1), round(sun, 0), lost))
    return out


def export(folder, name, rows, until):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "w", newline="") as fh:
        w = csv.writer(fh)
        w.writerow(HEAD)
        for r in rows:
            last = max(v for v in r[6] if v[0] <= until)
            w.writerow(list(r[:6]) + [last[1]] + list(r[7:]))


def main():
    fit, held = colonies(2400), colonies(900)
    for folder, until in (("ok", "2023-10-31"),
                          ("bug", "2024-04-30")):
        export(folder, "train.csv", fit, until)
        export(folder, "val.csv", held, until)


if __name__ == "__main__":
    main()
