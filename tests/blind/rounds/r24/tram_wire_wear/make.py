from pathlib import Path

import numpy as np

COLS = ["radius_m", "gradient_pct", "trams_per_day", "current_a", "stagger_mm", "tension_kn", "height_m", "splice_dist_m",
        "stop_dist_m", "years", "frost_days", "carbon_strip", "wear_mm"]


def sections(n, rng):
    radius = rng.choice([25, 50, 100, 300, 2000], n) * rng.uniform(0.8, 1.2, n)
    grad, trams = np.abs(rng.normal(0, 2.2, n)), rng.uniform(40, 520, n)
    stop, splice = rng.exponential(140, n), rng.exponential(90, n)
    amp = 180 + 90 * grad + 400 * np.exp(-stop / 50) + rng.normal(0, 40, n)
    stagger, tension = rng.normal(0, 170, n), rng.normal(10, 1.2, n)
    height, years, frost = rng.normal(5.5, 0.2, n), rng.uniform(1, 24, n), rng.integers(10, 70, n)
    carbon = (rng.random(n) < 0.6).astype(int)
    rate = 0.02 + 0.05 * (25 / radius) ** 0.5 + 0.06 * np.exp(-(stagger / 70) ** 2) + 0.04 * np.exp(-splice / 25)
    rate = rate * (trams / 250) * (0.6 + (amp / 500) ** 2) * np.where(carbon, 0.55, 1.3) * np.exp(-0.15 * (tension - 10))
    wear = 5 * (1 - np.exp(-rate * years / 3)) + 0.004 * frost * (1 - carbon) + rng.normal(0, 0.12, n)
    return np.column_stack([radius, grad, trams, amp, stagger, tension, height, splice, stop, years, frost, carbon, wear])


INI = """[data]
train = sections_train.tsv
valid = sections_valid.tsv
log_columns = radius_m, splice_dist_m, stop_dist_m

[model]
width = 64
depth = 3
dropout = 0.05

[training]
seed = 17
epochs = 30
batch_size = 64
learning_rate = 0.003
weight_decay = 0.01
clip_norm = 1.0
warmup_steps = {warmup}
"""

here = Path(__file__).parent
rng = np.random.default_rng(29)
train, valid = sections(3000, rng), sections(900, rng)
for side in ("bug", "ok"):
    (here / side).mkdir(exist_ok=True)
    for name, t in (("train", train), ("valid", valid)):
        np.savetxt(here / side / f"sections_{name}.tsv", t, fmt="%.3f", delimiter="\t", header="\t".join(COLS), comments="")
    (here / side / "settings.ini").write_text(INI.format(warmup=40000 if side == "bug" else 100))
