"""Voyage tables 2021-2024 in bug/ and ok/.  In bug/ the tables of 2021 and 2022 keep the code book of that time."""
from pathlib import Path

import numpy as np

here = Path(__file__).resolve().parent
rng = np.random.default_rng(909)
TERMINALS = sorted("Rotterdam Fujairah Houston Trieste Ningbo Primorsk Augusta Bonny Corpus Jamnagar Karachi Lavera Milford "
                   "Novoross Ruwais Santos Sikka Tuapse Ulsan Yanbu Zawia Antwerp Durban Galveston".split())
CARGO = sorted("arab_light brent diesel naphtha jet fuel_oil bonny urals condensate".split())
AGENTS = sorted(f"{a} {b}" for a in ("Gulf", "Inch", "Wilh", "Barw") for b in ("East", "West", "North", "Med"))
HULLS = sorted(["MR", "LR1", "LR2", "Aframax", "Suezmax", "VLCC"])
late = {"terminal": {"Antwerp", "Durban", "Corpus"}, "cargo": {"condensate"}, "agent": {"Barw East", "Barw Med"}, "hull_class": set()}
values = {"terminal": TERMINALS, "cargo": CARGO, "agent": AGENTS, "hull_class": HULLS}
# before 2023: names in order of first use, new ones at the end of the list
old_book = {}
for k, names in values.items():
    first = [n for n in names if n not in late[k]]
    old_book[k] = list(rng.permutation(first)) + sorted(late[k])
effect = {"terminal": rng.normal(0, 0.35, 24), "cargo": rng.normal(0, 0.2, 9), "agent": rng.normal(0, 0.15, 16),
          "hull_class": rng.normal(0, 0.1, 6)}
wave_sens = rng.gamma(1.5, 0.12, 24)
size = dict(zip(HULLS, [95, 60, 75, 35, 140, 260]))


def year(n):
    c = {k: rng.integers(0, len(v), n) for k, v in values.items()}
    cap = np.array([size[h] for h in HULLS])[c["hull_class"]]
    parcel = cap * rng.uniform(0.5, 1.0, n)
    age, pumps = rng.integers(0, 22, n), rng.integers(2, 5, n)
    draught = 6 + 1.9 * np.log(parcel) + rng.normal(0, 0.5, n)
    wave, queue = rng.gamma(2, 0.6, n), rng.poisson(2, n)
    y = 2.2 + 0.28 * np.log(parcel) + 0.01 * age - 0.08 * pumps + 0.07 * queue + wave_sens[c["terminal"]] * (wave - 1.2)
    y = y + sum(effect[k][c[k]] for k in values) + rng.normal(0, 0.12, n)
    return c, np.stack([parcel, age, draught, wave, queue, pumps], 1), np.exp(y)


tables = {2021: year(800), 2022: year(900), 2023: year(900), 2024: year(800)}
TOML = """seed = 8
train_tables = ["voyages_2021.tsv", "voyages_2022.tsv", "voyages_2023.tsv"]
valid_table = "voyages_2024.tsv"
batch = 64
epochs = 25
lr = 0.008
weight_decay = 0.02
dim = 6
hidden = 64
dropout = 0.05

[cardinality]
"""
for side in ("bug", "ok"):
    out = here / side
    out.mkdir(exist_ok=True)
    (out / "laytime.toml").write_text(TOML + "".join(f"{k} = {len(v)}\n" for k, v in values.items()))
    for yr, (c, nums, hours) in tables.items():
        rows = ["\t".join(list(values) + ["parcel_kt", "age", "draught", "wave_height", "queue", "pumps", "hours"])]
        for i in range(len(hours)):
            codes = []
            for k, names in values.items():
                code = c[k][i]
                if side == "bug" and yr < 2023:
                    code = old_book[k].index(names[code])
                codes.append(str(code))
            p, a, d, w, q, m = nums[i]
            rows.append("\t".join(codes + [f"{p:.1f}", f"{a:.0f}", f"{d:.2f}", f"{w:.2f}", f"{q:.0f}", f"{m:.0f}", f"{hours[i]:.2f}"]))
        (out / f"voyages_{yr}.tsv").write_text("\n".join(rows) + "\n")
