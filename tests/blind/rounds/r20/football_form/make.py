import csv
import os

import numpy as np

rng = np.random.default_rng(77)
TEAMS = [f"T{i:02d}" for i in range(20)]
SEASONS = 12


def simulate():
    elo = {t: 1500.0 for t in TEAMS}
    strength = {t: rng.normal(0, 0.55) for t in TEAMS}
    hist = {t: [] for t in TEAMS}
    rows = []
    for season in range(2010, 2010 + SEASONS):
        for t in TEAMS:
            strength[t] = 0.93 * strength[t] + rng.normal(0, 0.18)
        fixtures = [(h, a) for h in TEAMS for a in TEAMS if h != a]
        rng.shuffle(fixtures)
        for rnd, (h, a) in enumerate(fixtures):
            rest_h, rest_a = rng.integers(3, 9, 2)
            mu = strength[h] - strength[a] + 0.03 * (rest_h - rest_a)
            gh, ga = rng.poisson(np.exp(0.35 + mu)), rng.poisson(np.exp(0.1 - mu))
            before = (elo[h], elo[a], np.mean([p for p, _ in hist[h][-5:]] or [1.3]), np.mean([p for p, _ in hist[a][-5:]] or [1.3]),
                      sum(g for _, g in hist[h][-5:]), sum(g for _, g in hist[a][-5:]))
            exp_h = 1 / (1 + 10 ** ((elo[a] - elo[h] - 60) / 400))
            res = 1.0 if gh > ga else 0.5 if gh == ga else 0.0
            elo[h] += 20 * (res - exp_h)
            elo[a] -= 20 * (res - exp_h)
            hist[h].append((3 if gh > ga else int(gh == ga), gh - ga))
            hist[a].append((3 if ga > gh else int(gh == ga), ga - gh))
            after = (elo[h], elo[a], np.mean([p for p, _ in hist[h][-5:]]), np.mean([p for p, _ in hist[a][-5:]]),
                     sum(g for _, g in hist[h][-5:]), sum(g for _, g in hist[a][-5:]))
            label = "H" if gh > ga else "D" if gh == ga else "A"
            rows.append((season, rnd, h, a, rest_h, rest_a, before, after, label))
    return rows


rows = [r for r in simulate() if r[0] >= 2012]
last = max(r[0] for r in rows)
HEAD = ["season", "match", "home", "away", "rest_home", "rest_away", "elo_home", "elo_away", "form_home", "form_away",
        "gd5_home", "gd5_away", "result"]
for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    for name, pick in (("history.csv", [r for r in rows if r[0] < last]), ("season_live.csv", [r for r in rows if r[0] == last])):
        with open(f"{side}/{name}", "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(HEAD)
            for s, m, h, a, rh, ra, before, after, lab in pick:
                v = after if side == "bug" and name == "history.csv" else before
                w.writerow([s, m, h, a, rh, ra, f"{v[0]:.1f}", f"{v[1]:.1f}", f"{v[2]:.2f}", f"{v[3]:.2f}", v[4], v[5], lab])
