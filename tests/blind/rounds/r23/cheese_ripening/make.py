from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
COLUMNS = ["wheel", "cave", "weeks", "milk_fat", "protein", "salt", "ph_start", "moisture", "temp_mean",
           "humidity_mean", "turnings", "brushings", "rennet", "summer_milk", "weight", "maturity", "split"]

CONFIG = """# ripening score of hard cheese
[data]
file = "wheels.csv"
target = "maturity"
categorical = "cave"

[model]
hidden = 64
dropout = 0.05

[train]
epochs = 20
batch_size = 64
lr = 0.002
weight_decay = 0.001
ema_decay = {decay}
seed = 8
"""


def main():
    rng = np.random.default_rng(31)
    n = 2400
    cave = rng.integers(5, size=n)
    weeks = rng.integers(4, 60, size=n)
    fat, protein = rng.normal(3.9, .35, n), rng.normal(3.3, .2, n)
    salt, ph, moist = rng.normal(1.5, .25, n), rng.normal(5.3, .12, n), rng.normal(38, 2, n)
    temp = np.array([11, 12.5, 13, 14.5, 16])[cave] + rng.normal(0, .8, n)
    hum = np.array([94, 92, 90, 88, 85])[cave] + rng.normal(0, 1.5, n)
    turn, brush = rng.poisson(weeks * 1.5), rng.poisson(weeks * .7)
    rennet, summer, weight = rng.normal(30, 3, n), (rng.random(n) < .45) * 1, rng.normal(7.2, .5, n)
    speed = .045 * 2 ** ((temp - 13) / 5) * (1 - .35 * (salt - 1.5)) * (1 + .04 * (moist - 38))
    y = 100 * (1 - np.exp(-speed * weeks)) + 9 * (ph - 5.3) / .12 * np.exp(-weeks / 20)
    y += 3 * summer * (fat - 3.9) / .35 - 6 * ((hum - 90) / 4) ** 2 * (brush < .6 * weeks) + rng.normal(0, 2, n)
    split = np.where(rng.random(n) < .75, "train", "val")
    rows = zip(np.arange(n) + 10001, [f"cave{c + 1}" for c in cave], weeks, fat.round(2), protein.round(2),
               salt.round(2), ph.round(2), moist.round(1), temp.round(1), hum.round(1), turn, brush,
               rennet.round(1), summer, weight.round(2), y.round(2), split)
    text = "\n".join([",".join(COLUMNS)] + [",".join(map(str, r)) for r in rows]) + "\n"
    for side, decay in (("bug", 0.9995), ("ok", 0.98)):
        folder = HERE / side
        folder.mkdir(exist_ok=True)
        (folder / "wheels.csv").write_text(text)
        (folder / "config.toml").write_text(CONFIG.format(decay=decay))


main()
