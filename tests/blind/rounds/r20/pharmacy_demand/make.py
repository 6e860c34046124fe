import numpy as np
import json

NAMES = ["last_week", "four_week_mean", "price", "promo", "flu_index", "temp", "lead_days", "stock_days", "rx_share", "footfall"]


def table(rng, n):
    base = np.exp(rng.normal(3.0, 0.5, n))
    flu = rng.gamma(2, 1, n)
    promo = (rng.random(n) < 0.2).astype(float)
    price = rng.uniform(2, 30, n)
    temp = rng.normal(12, 8, n)
    rx = rng.uniform(0, 1, n)
    foot = rng.normal(300, 80, n)
    stock = rng.uniform(0, 40, n)
    lead = rng.integers(1, 10, n).astype(float)
    mean4 = base * np.exp(rng.normal(0, 0.1, n))
    last = base * np.exp(rng.normal(0, 0.25, n))
    demand = base * (1 + 0.5 * promo * (1 - rx)) * (1 + 0.12 * flu * (temp < 12)) * (foot / 300) ** 0.7
    demand *= np.where(stock < 6, 0.6, 1.0) * np.exp(-0.015 * (price - 10)) * np.exp(rng.normal(0, 0.07, n))
    return np.stack([last, mean4, price, promo, flu, temp, lead, stock, rx, foot], 1), demand


rng = np.random.default_rng(41)
x, y = table(rng, 4000)
missing = rng.random(x.shape) < np.array([.02, .02, .02, 0, .03, .02, .02, .03, .02, .02])
filled = np.where(missing, np.median(x, 0), x)
sentinel = np.where(missing, 99999.0, x)
for side, data in (("bug", sentinel), ("ok", filled)):
    np.save(f"{side}/x_train.npy", data[:3200].astype(np.float32))
    np.save(f"{side}/y_train.npy", y[:3200].astype(np.float32))
    np.save(f"{side}/x_val.npy", data[3200:].astype(np.float32))
    np.save(f"{side}/y_val.npy", y[3200:].astype(np.float32))
    json.dump({"features": NAMES, "target": "units_next_week"}, open(f"{side}/schema.json", "w"))
