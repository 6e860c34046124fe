import csv
import numpy as np


def season(rng, n_players=120, n_matches=5200):
    skill = rng.normal(0, 1.0, n_players)
    clay = rng.normal(0, 0.5, n_players)
    elo = 1500 + 120 * skill + rng.normal(0, 60, n_players)
    form = np.zeros(n_players)
    pre, post = [], []
    for _ in range(n_matches):
        a, b = rng.choice(n_players, 2, replace=False)
        surface = int(rng.integers(0, 3))
        edge = skill[a] - skill[b] + (surface == 0) * (clay[a] - clay[b])
        y = int(rng.random() < 1 / (1 + np.exp(-1.6 * edge)))
        rest = rng.integers(0, 8, 2)
        before = [elo[a], elo[b], form[a], form[b]]
        expect = 1 / (1 + 10 ** ((elo[b] - elo[a]) / 400))
        elo[a] += 32 * (y - expect)
        elo[b] -= 32 * (y - expect)
        form[a] = 0.7 * form[a] + 0.3 * (2 * y - 1)
        form[b] = 0.7 * form[b] + 0.3 * (1 - 2 * y)
        after = [elo[a], elo[b], form[a], form[b]]
        for out, v in ((pre, before), (post, after)):
            out.append([surface, *np.round(v, 3), clay[a].round(2), clay[b].round(2), *rest, y])
    return pre, post


COLS = ["surface", "elo_1", "elo_2", "form_1", "form_2", "clay_1", "clay_2", "rest_1", "rest_2", "first_won"]
pre, post = season(np.random.default_rng(19))
for side, rows in (("bug", post), ("ok", pre)):
    for name, part in (("train", rows[600:4200]), ("val", rows[4200:])):
        with open(f"{side}/{name}.csv", "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(COLS)
            w.writerows(part)
