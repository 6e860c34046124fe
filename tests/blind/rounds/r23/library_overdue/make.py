"""Writes loans.csv and config.json for both folders."""
import csv
import json
from pathlib import Path

import numpy as np

BRANCHES = ["centre", "harbour", "north", "school", "bus"]
KINDS = ["novel", "nonfiction", "film", "boardgame"]


def loans(rng, n):
    rows, this_loan = [], []
    for i in range(n):
        age = int(np.clip(rng.gamma(4, 9), 6, 92))
        branch, kind = int(rng.integers(5)), int(rng.integers(4))
        years = round(float(rng.exponential(4)), 1)
        open_items = int(rng.poisson(4))
        distance = round(float(rng.gamma(2, 1.6)), 2)
        past = rng.poisson(1.2)
        days = [28, 28, 7, 14][kind]
        z = (-1.6 + 0.35 * past + 0.22 * (open_items - 4) + 0.3 * (distance - 3.2) - 0.03 * (age - 36)
             - 0.12 * (years - 4) + [0, 0.2, 0.9, 0.5][kind] + [0, 0.2, 0.4, -0.6, 0.7][branch])
        late = int(rng.random() < 1 / (1 + np.exp(-1.5 * z)))
        this_loan.append(int(rng.integers(1, 4)) if late and rng.random() < 0.96 else 0)
        rows.append([f"L{i:05d}", age, BRANCHES[branch], KINDS[kind], years, open_items, distance, days,
                     int(past), late])
    return rows, this_loan


HEAD = ["loan", "age", "branch", "kind", "member_years", "open_items", "distance_km", "loan_days", "reminders", "late"]
CONFIG = {"numeric": ["age", "member_years", "open_items", "distance_km", "loan_days", "reminders"],
          "category": ["branch", "kind"], "label": "late", "val_share": 0.25, "hidden": 48, "dropout": 0.1,
          "lr": 0.002, "weight_decay": 0.0005, "batch": 64, "epochs": 15, "seed": 62}


def write(folder, rows):
    folder.mkdir(exist_ok=True)
    with (folder / "loans.csv").open("w", newline="") as f:
        w = csv.writer(f)
        w.writerow(HEAD)
        w.writerows(rows)
    (folder / "config.json").write_text(json.dumps(CONFIG, indent=2))


if __name__ == "__main__":
    base = Path(__file__).resolve().parent
    rows, this_loan = loans(np.random.default_rng(1450), 3200)
    write(base / "ok", rows)
    write(base / "bug", [r[:8] + [r[8] + 3 * k] + r[9:] for r, k in zip(rows, this_loan)])
