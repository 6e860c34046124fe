import numpy as np

COLS = ["driver_age", "licence_years", "vehicle_value", "engine_kw", "annual_km", "bonus_malus", "urban", "prev_claims"]


def book(rng, n):
    age = rng.integers(19, 80, n)
    lic = np.maximum(0, age - 18 - rng.integers(0, 12, n))
    value = np.clip(np.exp(rng.normal(10.25, 0.6, n)), 2500, 140000).round()
    kw = np.clip(60 + rng.gamma(3.0, 22.0, n), 40, 300).round()
    km = np.clip(rng.normal(13000, 4500, n), 1500, 31000).round()
    bm = rng.integers(50, 141, n)
    urban = rng.integers(0, 2, n)
    prev = rng.poisson(0.4, n)
    x = np.stack([age, lic, value, kw, km, bm, urban, prev], 1).astype(np.float64)
    log_claim = (6.4 + 0.75 * np.log(value / 20000) + 0.003 * (kw - 120) + 0.004 * (bm - 90) + 0.15 * urban
                 + 0.12 * prev + 0.25 * (age < 25) + 0.2 * (km - 13000) / 10000 + rng.normal(0, 0.25, n))
    return x, np.exp(log_claim).round(2)


for side in ("bug", "ok"):
    rng = np.random.default_rng(77)
    kind = np.int16 if side == "bug" else np.int32
    x, y = book(rng, 4000)
    np.savez(f"{side}/train.npz", claim=y, columns=np.array(COLS),
             **{c: x[:, i].astype(np.int64).astype(kind) for i, c in enumerate(COLS)})
    x, y = book(rng, 1000)
    with open(f"{side}/test.csv", "w") as f:
        f.write(";".join(COLS + ["claim"]) + "\n")
        for row, t in zip(x, y):
            f.write(";".join(str(int(v)) for v in row) + f";{t:.2f}\n")
