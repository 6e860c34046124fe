import csv
import numpy as np

COLUMNS = ["claim_id", "age_driver", "vehicle_age", "vehicle_value", "claim_type", "region", "injury", "police_report",
           "days_to_report", "prior_claims", "repair_estimate", "paid_to_date", "large_loss"]


def claims(n, rng, first_id):
    age = rng.normal(45, 15, n).clip(18, 90)
    v_age = rng.integers(0, 18, n)
    value = rng.lognormal(9.6, 0.5, n) * 0.9 ** v_age
    kind = rng.integers(0, 5, n)
    region = rng.integers(0, 6, n)
    injury = rng.random(n) < 0.12 + 0.1 * (kind == 2)
    police = rng.random(n) < 0.3 + 0.4 * injury
    delay = rng.exponential(6, n).round()
    prior = rng.poisson(0.5, n)
    severity = (0.55 * (np.log(value) - 9) + 1.9 * injury + 0.35 * (kind == 1) - 0.6 * (kind == 4) + 0.3 * police
                + 0.02 * delay + 0.2 * prior + 0.1 * (region == 3) - 0.01 * (age - 45))
    true = severity + rng.normal(0, 0.55, n)
    estimate = np.exp(7 + 0.8 * true + rng.normal(0, 0.6, n))
    final = np.exp(7 + 1.1 * true)
    large = (true > 0.8).astype(int)
    return age, v_age, value, kind, region, injury, police, delay, prior, estimate, final, large


def write(path, n, rng, first_id, settled):
    age, v_age, value, kind, region, injury, police, delay, prior, estimate, final, large = claims(n, rng, first_id)
    early = np.where(rng.random(n) < 0.35, 0.1 * estimate * rng.random(n), 0)
    paid = final * rng.uniform(0.97, 1.0, n) if settled else early
    with open(path, "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(COLUMNS)
        for i in range(n):
            w.writerow([first_id + i, f"{age[i]:.0f}", v_age[i], f"{value[i]:.0f}", "collision glass liability theft hail".split()[kind[i]],
                        f"R{region[i]}", int(injury[i]), int(police[i]), int(delay[i]), prior[i], f"{estimate[i]:.0f}",
                        f"{paid[i]:.0f}", large[i]])


for side in ("bug", "ok"):
    rng = np.random.default_rng(31)
    write(f"{side}/train.csv", 5000, rng, 10000, side == "bug")
    write(f"{side}/valid.csv", 1200, rng, 20000, side == "bug")
    write(f"{side}/incoming.csv", 1500, rng, 30000, False)
