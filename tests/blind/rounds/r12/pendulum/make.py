"""Swings of a damped pendulum seen at irregular times by two loggers; writes bug/ and ok/."""
import json
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
rng = np.random.default_rng(19)


def flow(s):
    return np.array([s[1], -1.3 * np.sin(s[0]) - 0.15 * s[1]])


def integrate(s, dt):
    n = max(1, int(np.ceil(dt / 0.02)))
    h = dt / n
    for _ in range(n):
        a = flow(s)
        b = flow(s + h / 2 * a)
        c = flow(s + h / 2 * b)
        d = flow(s + h * c)
        s = s + h / 6 * (a + 2 * b + 2 * c + d)
    return s


def swing(n_obs, noise):
    s = np.array([rng.uniform(-2.2, 2.2), rng.uniform(-1.5, 1.5)])
    t, times, states = 0.0, [], []
    for _ in range(n_obs):
        times.append(t)
        states.append(s + noise * rng.normal(size=2))
        dt = rng.uniform(0.15, 0.6)
        s, t = integrate(s, dt), t + dt
    return times, np.round(states, 4).tolist()


train = [("A" if k % 2 == 0 else "B", *swing(25, 0.02)) for k in range(60)]
test = [swing(20, 0.0) for _ in range(25)]
for name, tick in (("ok", 1.0), ("bug", 10.0)):
    d = HERE / name
    d.mkdir(exist_ok=True)
    with open(d / "train.jsonl", "w") as f:
        for k, (logger, times, states) in enumerate(train):
            t = [round(v * (tick if logger == "B" else 1.0), 6) for v in times]
            f.write(json.dumps({"id": k, "logger": logger, "t": t, "state": states}) + "\n")
    with open(d / "test.jsonl", "w") as f:
        for k, (times, states) in enumerate(test):
            f.write(json.dumps({"id": k, "t": [round(v, 6) for v in times], "state": states}) + "\n")
