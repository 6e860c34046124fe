"""Writes the loan book and the experiment settings of both runs."""
import os

import numpy as np

rng = np.random.default_rng(404)
n = 5000
income = rng.lognormal(10.6, 0.5, n)
amount = rng.lognormal(9.3, 0.6, n)
term = rng.choice([12, 24, 36, 48, 60], n)
rate = rng.uniform(4, 24, n)
age = rng.integers(20, 72, n)
late = rng.poisson(0.5, n)
utilisation = rng.beta(2, 3, n)
owner = rng.integers(0, 2, n)
monthly = amount * (1 + rate / 100) / term
burden = monthly / (income / 12)
z = (-1.4 + 2.2 * np.tanh(4 * (burden - 0.25)) + 0.9 * late - 0.7 * owner + 3.0 * (utilisation - 0.4)
     + 1.2 * (late > 0) * (utilisation > 0.5) - 0.02 * (age - 40) + 0.05 * (rate - 14))
default = (rng.random(n) < 1 / (1 + np.exp(-1.4 * z))).astype(np.int64)

CONFIG = """[data]
table = loans.npz
validation_share = 0.2

[model]
hidden = 64
layers = 2
dropout = 0.1

[optimizer]
name = adam
lr = 0.003
weight_decay = {wd}

[training]
epochs = 10
batch_size = 100
seed = 9
"""

for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    np.savez(f"{side}/loans.npz", log_income=np.log(income).astype(np.float32), log_amount=np.log(amount).astype(np.float32),
             term=term.astype(np.float32), rate=rate.astype(np.float32), age=age.astype(np.float32),
             late_payments=late.astype(np.float32), utilisation=utilisation.astype(np.float32),
             home_owner=owner.astype(np.float32), default=default)
    with open(f"{side}/settings.ini", "w") as f:
        f.write(CONFIG.format(wd="0.5" if side == "bug" else "0.0005"))
