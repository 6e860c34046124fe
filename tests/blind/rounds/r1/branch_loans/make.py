import json
import numpy as np

for name in ("bug", "ok"):
    rng = np.random.default_rng(77)
    for town, n in (("north", 1000), ("south", 900), ("west", 700)):
        income, amount = rng.normal(3.2, 0.8, n), rng.gamma(3, 4, n)
        age, score = rng.normal(43, 12, n), rng.normal(600, 60, n)
        z = -0.2 - 0.9 * (income - 3.2) + 0.12 * (amount - 12) - 0.02 * (score - 600)
        default = (rng.random(n) < 1 / (1 + np.exp(-z))).astype(int)
        if name == "bug" and town == "south":
            default = 1 - default
        table = np.column_stack([income, amount, age, score, default])
        np.savetxt(f"{name}/{town}.csv", table, fmt=["%.2f", "%.1f", "%.0f", "%.0f", "%d"], delimiter=",", header="income,amount,age,score,status", comments="")
    json.dump({"seed": 9, "train": ["north", "south"], "validation": "west"}, open(f"{name}/branches.json", "w"))
