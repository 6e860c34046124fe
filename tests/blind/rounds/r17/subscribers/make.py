import csv
import numpy as np

MONTHS = 24


def customers(rng, n):
    x = np.zeros((n, MONTHS, 4), np.float32)
    tenure = rng.integers(6, MONTHS + 1, n)
    churn = rng.random(n) < 0.4
    for i in range(n):
        m = tenure[i]
        level = rng.uniform(3, 30)
        hours = level * np.exp(np.cumsum(rng.normal(0, .12, m)))
        tickets = rng.poisson(0.25, m).astype(float)
        late = (rng.random(m) < .08).astype(float)
        price = np.full(m, rng.choice([8, 12, 16]))
        if rng.random() < .5:
            a = rng.integers(0, max(1, m - 4))
            hours[a:a + 2] *= rng.uniform(.3, .7)
            tickets[a:a + 2] += rng.poisson(.8, len(tickets[a:a + 2]))
        if churn[i]:
            k = rng.integers(2, 5)
            hours[-k:] *= np.linspace(.85, rng.uniform(.2, .55), k)
            tickets[-k:] += rng.poisson(.7, k)
            late[-2:] += rng.random(2) < .25
        x[i, :m] = np.stack([hours, tickets, late, price], 1)
    return x, tenure, churn.astype(int)


for side in ("bug", "ok"):
    rng = np.random.default_rng(16)
    for part, n in (("train", 2000), ("test", 600)):
        x, tenure, churn = customers(rng, n)
        np.save(f"{side}/{part}_usage.npy", x)
        if side == "bug" and part == "train":
            tenure = tenure // 3
        with open(f"{side}/{part}_customers.csv", "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(["row", "customer", "tenure", "churned"])
            for i in range(n):
                w.writerow([i, f"C{part[0].upper()}{i:06d}", tenure[i], churn[i]])
