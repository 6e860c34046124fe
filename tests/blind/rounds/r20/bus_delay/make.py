import numpy as np

COLS = ["stop_seq", "hour", "dow", "route_len", "headway", "rain", "load_prev", "temp", "dwell_mean", "speed_prev", "signal_cnt", "late3"]


def trips(rng, n, per_trip):
    blocks = []
    for _ in range(n):
        hour, dow = rng.uniform(5, 23), rng.integers(0, 7)
        length, headway, rain = rng.uniform(5, 25), rng.uniform(4, 30), max(0, rng.normal(0, 1))
        load, temp, dwell = rng.normal(0, 1), rng.normal(12, 8), rng.gamma(4, 5)
        speed, signals = rng.normal(22, 4), rng.integers(5, 60)
        peak = np.exp(-(hour - 8) ** 2 / 3) + np.exp(-(hour - 17.5) ** 2 / 4)
        driver = rng.normal(0, 1.6)
        level = 4.0 * peak * (dow < 5) + 0.9 * rain + 1.2 * load - 0.5 * (speed - 22) + driver
        stops = np.sort(rng.uniform(0, 1, per_trip))
        delay = level * (0.7 + 0.5 * stops) + rng.normal(0, 0.25, per_trip)
        late3 = 0.3 * level + rng.normal(0, 1.5)
        fixed = [hour, dow, length, headway, rain, load, temp, dwell, speed, signals, late3]
        blocks.append(np.array([[s, *fixed, d] for s, d in zip(stops, delay)]))
    return blocks


rng = np.random.default_rng(77)
blocks = trips(rng, 700, 5)
order = rng.permutation(len(blocks))
by_trip = np.concatenate([blocks[i] for i in order])
n_val = 140 * 5
shuffled = by_trip[np.random.default_rng(78).permutation(len(by_trip))]
for side, data in (("bug", shuffled), ("ok", by_trip)):
    for name, part in (("val", data[:n_val]), ("train", data[n_val:])):
        np.savetxt(f"{side}/{name}.csv", part, delimiter=",", fmt="%.4f", header=",".join(COLS + ["delay_min"]), comments="")
