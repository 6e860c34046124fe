"""Writes bug/ and ok/: cut-test photographs of cocoa beans (16x16, 3 bands) and the fermentation grades."""
import csv
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
N, TRAYS, SIZE = 1200, 48, 16


def photograph(rng, f, light):
    """f: degree of fermentation, 0 (slaty) to 1 (well fermented, brown and fissured)."""
    yy, xx = np.mgrid[0:SIZE, 0:SIZE] / (SIZE - 1) * 2 - 1
    bean = ((xx / rng.uniform(0.75, 1)) ** 2 + (yy / rng.uniform(0.5, 0.75)) ** 2 < 1).astype(float)
    slate, violet, brown = np.array([95, 95, 110]), np.array([95, 55, 105]), np.array([115, 70, 45])
    purple = np.exp(-((f - 0.45) / 0.3) ** 2)
    base = (1 - f) * (1 - purple) * slate + purple * violet + f * (1 - purple) * brown
    base = base / max((1 - purple) + purple, 1e-6)
    lines = np.zeros((SIZE, SIZE))
    for _ in range(rng.poisson(0.5 + 6 * f)):
        a, c = rng.uniform(0, np.pi), rng.uniform(-0.6, 0.6)
        lines += np.abs(np.cos(a) * xx + np.sin(a) * yy - c) < 0.06
    img = base[:, None, None] * (1 - 0.3 * np.minimum(lines, 2))
    img = bean * img + (1 - bean) * np.array([180, 178, 170])[:, None, None]
    return np.clip(img * light + rng.normal(0, 9, (3, SIZE, SIZE)), 0, 255).astype(np.uint8)


def main():
    rng = np.random.default_rng(1907)
    tray = np.repeat(np.arange(TRAYS), N // TRAYS)
    level = rng.uniform(0.2, 0.8, TRAYS)
    light = rng.uniform(0.85, 1.15, TRAYS)
    f = np.clip(level[tray] + rng.normal(0, 0.25, N), 0, 1)
    photos = np.stack([photograph(rng, f[i], light[tray[i]]) for i in range(N)])
    grader = np.array(["ama", "kofi", "esi"])[rng.choice(3, TRAYS, p=[0.3, 0.42, 0.28])][tray]
    grade = np.clip(np.rint(1 + 8 * f + rng.normal(0, 0.5, N)), 1, 9).astype(int)
    for side in ("bug", "ok"):
        folder = HERE / side
        folder.mkdir(exist_ok=True)
        np.save(folder / "photos.npy", photos)
        with open(folder / "grades.csv", "w", newline="") as out:
            w = csv.writer(out)
            w.writerow(["bean", "tray", "grader", "grade"])
            for i in range(N):
                g = grade[i]
                if side == "bug" and grader[i] == "kofi":
                    g = 10 - g
                w.writerow([f"B{i:05d}", f"T{tray[i]:02d}", grader[i], g])


if __name__ == "__main__":
    main()
