import os
import numpy as np
rng = np.random.default_rng(0)
rows = []
for year in range(1985, 2020):
    for age in range(20, 95, 2):
        rate = np.exp(-9.6 + 0.087 * age - 0.015 * (year - 2000))
        pop = 200000 * np.exp(-((age - 45) / 35) ** 2) * (1 + 0.05 * rng.normal())
        rows.append((age, year, round(pop, 1), rng.poisson(pop * rate)))
rows = np.array(rows)
by_year = rows[np.lexsort((rows[:, 0], rows[:, 1]))]
by_age = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
for name, deaths in (("bug", by_age), ("ok", by_year)):
    os.makedirs(name, exist_ok=True)
    np.savetxt(f"{name}/exposures.csv", by_year[:, :3], delimiter=",", header="age,year,exposure", comments="", fmt=["%d", "%d", "%.1f"])
    np.savetxt(f"{name}/deaths.csv", deaths[:, [0, 1, 3]], delimiter=",", header="age,year,deaths", comments="", fmt="%d")
