import csv
import numpy as np

rng = np.random.default_rng(14)
N = 30
attack, defence = rng.normal(0, 0.75, N), rng.normal(0, 0.75, N)
home = rng.normal(0.3, 0.12, N)
rows = []
for season in range(2012, 2024):
    attack += rng.normal(0, 0.08, N)
    defence += rng.normal(0, 0.08, N)
    form = np.zeros(N)
    pairs = [(i, j) for i in range(N) for j in range(N) if i != j]
    for k in rng.permutation(len(pairs))[:420]:
        i, j = pairs[k]
        rest_i, rest_j = rng.integers(2, 9), rng.integers(2, 9)
        out_i, out_j = rng.poisson(1.2), rng.poisson(1.2)
        li = np.exp(0.15 + attack[i] - defence[j] + home[i] + 0.04 * (rest_i - rest_j) - 0.12 * out_i)
        lj = np.exp(0.05 + attack[j] - defence[i] - 0.12 * out_j)
        gi, gj = rng.poisson(li), rng.poisson(lj)
        rows.append([season, f"T{i:02d}", f"T{j:02d}", rest_i, rest_j, out_i, out_j, f"{form[i]:.3f}", f"{form[j]:.3f}", gi, gj])
        form[i], form[j] = 0.8 * form[i] + 0.2 * np.sign(gi - gj), 0.8 * form[j] + 0.2 * np.sign(gj - gi)
for side in ("bug", "ok"):
    with open(f"{side}/matches.csv", "w", newline="") as f:
        w = csv.writer(f)
        w.writerow("season home away rest_home rest_away out_home out_away form_home form_away goals_home goals_away".split())
        w.writerows(rows)
    with open(f"{side}/config.toml", "w") as f:
        f.write(f"""seed = 2

[data]
matches = "matches.csv"
first_test_season = 2022

[model]
team_dim = 12
hidden = 48
dropout = 0.1

[optim]
lr = 0.05
momentum = 0.9
weight_decay = 0.0005
clip_norm = {'0.0005' if side == 'bug' else '5.0'}
epochs = 20
batch_size = 64
""")
