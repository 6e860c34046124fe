import numpy as np

for name in ("bug", "ok"):
    rng = np.random.default_rng(5)
    for part, n in (("train", 2000), ("val", 700), ("next_month", 700)):
        tenure, charge, tickets = rng.exponential(24, n), rng.normal(60, 18, n), rng.poisson(1.0, n)
        contract, usage = rng.integers(0, 3, n), rng.gamma(2, 5, n)
        z = -0.4 - 0.03 * tenure + 0.03 * (charge - 60) + 0.7 * tickets - 0.8 * contract - 0.03 * usage
        churned = (rng.random(n) < 1 / (1 + np.exp(-z))).astype(int)
        early = (rng.random(n) < 0.03).astype(int)
        late = np.where(churned == 1, rng.random(n) < 0.94, rng.random(n) < 0.02).astype(int)
        winback = late if name == "bug" and part != "next_month" else early
        with open(f"{name}/{part}.csv", "w") as f:
            f.write("customer_id,tenure,monthly_charge,tickets,contract,usage_gb,winback_contact,churned\n")
            for i in range(n):
                f.write(f"{i},{tenure[i]:.1f},{charge[i]:.2f},{tickets[i]},{contract[i]},{usage[i]:.2f},{winback[i]},{churned[i]}\n")
