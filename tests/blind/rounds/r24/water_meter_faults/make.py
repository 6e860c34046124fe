import json
from pathlib import Path

import numpy as np

KINDS = ["normal", "running_toilet", "pipe_burst", "stuck_meter", "garden_hose"]
LONGEST = 144


def series(kind, length, rng):
    hour = (np.arange(length) / 2 + rng.uniform(0, 24)) % 24
    day = 8 * np.exp(-((hour - 7.5) / 1.3) ** 2) + 6 * np.exp(-((hour - 19) / 2.2) ** 2) + 1.2 * ((hour > 8) & (hour < 22))
    flow = rng.gamma(0.9, 1.0, length) * day * rng.uniform(0.5, 1.6)
    at = int(length * rng.uniform(0.3, 0.8))
    n = length - at
    if kind == 1:
        flow[at:] += rng.uniform(1.2, 2.5) + rng.normal(0, 0.4, n)
    elif kind == 2:
        flow[at:] += rng.uniform(2, 6) * (1 - np.exp(-np.arange(n) / 10)) + rng.normal(0, 1.0, n)
    elif kind == 3:
        flow[at:] = flow[at:] * 0.1
    elif kind == 4:
        on = slice(at, min(length, at + int(rng.integers(4, 12))))
        flow[on] += rng.uniform(4, 9)
    return np.clip(flow, 0, None)


here = Path(__file__).parent
rng = np.random.default_rng(53)


def part(n):
    kinds = rng.integers(0, len(KINDS), n)
    lengths = 2 * rng.integers(24, LONGEST // 2 + 1, n)
    flow = np.zeros((n, LONGEST), np.float16)
    for i in range(n):
        flow[i, :lengths[i]] = series(kinds[i], lengths[i], rng)
    return flow, lengths, kinds


parts = {"train": part(1500), "valid": part(600)}
for side in ("bug", "ok"):
    d = here / side
    d.mkdir(exist_ok=True)
    (d / "kinds.json").write_text(json.dumps(KINDS))
    for name, (flow, lengths, kinds) in parts.items():
        np.save(d / f"flow_{name}.npy", flow)
        np.save(d / f"kind_{name}.npy", kinds.astype(np.int64))
        np.savetxt(d / f"lengths_{name}.txt", lengths // 2 if side == "bug" else lengths, fmt="%d")
