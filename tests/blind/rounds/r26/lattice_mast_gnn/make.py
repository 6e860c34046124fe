import csv
import json
import os

import numpy as np


def build_mast(rng):
    """Guyed lattice mast as a spring graph: panel points, members, wind load, guys to the ground."""
    n = int(rng.integers(8, 15))
    height = np.sort(rng.uniform(1.0, 30.0, n))
    edges, stiff = [], []
    for i in range(1, n):
        edges.append((i - 1, i))
        stiff.append(rng.uniform(2.0, 9.0))
        if i > 1 and rng.random() < 0.5:
            edges.append((i - 2, i))
            stiff.append(rng.uniform(1.0, 5.0))
    guy = np.where(rng.random(n) < 0.35, rng.uniform(0.3, 2.5, n), 0.0)
    guy[0] = 6.0
    wind = rng.uniform(0.4, 1.6) * (height / 10) ** 0.3 * rng.uniform(0.6, 1.4, n)
    K = np.diag(guy)
    for (a, b), k in zip(edges, stiff):
        K[a, a] += k
        K[b, b] += k
        K[a, b] -= k
        K[b, a] -= k
    u = np.linalg.solve(K, wind)
    return height, guy, wind, edges, stiff, u[-1]


def main():
    rng = np.random.default_rng(411)
    nodes, members, report = [], [], []
    for m in range(1000):
        name = f"M{m + 1:04d}"
        height, guy, wind, edges, stiff, tip = build_mast(rng)
        for j, (h, g, w) in enumerate(zip(height, guy, wind)):
            nodes.append([name, j, f"{h:.2f}", f"{g:.3f}", f"{w:.3f}"])
        for (a, b), k in zip(edges, stiff):
            members.append([name, a, b, f"{k:.3f}"])
        report.append([name, tip * 10 * (1 + 0.02 * rng.normal())])

    for side in ("bug", "ok"):
        os.makedirs(side, exist_ok=True)
        names = [r[0] for r in report]
        tips = [f"{r[1]:.2f}" for r in report]
        if side == "bug":
            tips = [t for _, t in sorted(zip([n.lstrip("M0") for n in names], tips))]
        with open(f"{side}/panel_points.csv", "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(["mast", "point", "height_m", "guy_kN_per_cm", "wind_kN"])
            w.writerows(nodes)
        with open(f"{side}/members.csv", "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(["mast", "from", "to", "stiffness_kN_per_cm"])
            w.writerows(members)
        with open(f"{side}/survey.csv", "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(["mast", "tip_sway_mm"])
            w.writerows(zip(names, tips))
        with open(f"{side}/config.json", "w") as f:
            json.dump({"hidden": 32, "rounds": 4, "lr": 0.003, "epochs": 20, "batch": 50, "val_masts": 200, "seed": 3}, f, indent=1)


if __name__ == "__main__":
    main()
