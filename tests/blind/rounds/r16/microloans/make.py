from pathlib import Path
import numpy as np

HERE = Path(__file__).resolve().parent


def borrowers(n, rng):
    income = rng.lognormal(9.5, 0.5, n)
    amount = rng.lognormal(8.5, 0.6, n)
    age = rng.uniform(20, 65, n)
    prior = rng.poisson(1.5, n)
    z = 1.6 * (np.log(amount) - np.log(income) + 1.0) - 0.5 * (prior - 1.5) - 0.03 * (age - 40)
    default = rng.random(n) < 1 / (1 + np.exp(-2.2 * z))
    return np.stack([np.log(income), np.log(amount), age, prior], 1), default


for side in ("bug", "ok"):
    rng = np.random.default_rng(36)
    out = HERE / side
    out.mkdir(exist_ok=True)
    for part, n in (("train", 1200), ("val", 300), ("new_applications", 600)):
        x, default = borrowers(n, rng)
        reminders_before = rng.poisson(0.5, n)
        reminders_after = np.where(default, rng.poisson(5, n) + 1, rng.poisson(0.2, n))
        known = part != "new_applications"
        reminders = reminders_before + (reminders_after if side == "bug" and known else 0)
        table = np.column_stack([x, reminders, default])
        np.savetxt(out / f"{part}.csv", table, delimiter=",", fmt="%.3f", comments="",
                   header="log_income,log_amount,age,prior_loans,reminders,defaulted")
