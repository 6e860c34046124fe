from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
T = np.arange(64) / 32.0


def window(kind, rng, body):
    f = [0.2, 1.8, 1.5, 1.2][kind] * body["pace"]
    ph = rng.uniform(0, 6.28)
    s = lambda k, a: a * body["force"] * np.sin(2 * np.pi * k * f * T + ph + rng.normal(0, .3))
    acc = [[s(1, .05), s(1, .05), 1 + s(1, .03)], [s(1, .25), s(1, .35), 1 + s(2, .5)], [s(1, .3), s(1, .3), 1 + s(2, .6)], [s(1, .4), s(1, .15), 1 + s(1, .1)]][kind]
    gyr = [[s(1, .02)] * 3, [s(1, .9), s(1, .3), s(1, .3)], [s(1, .3), s(1, .9), s(1, .3)], [s(1, .3), s(1, .3), s(1, 1.1)]][kind]
    return np.stack(acc + gyr, 1) + rng.normal(0, .8, (64, 6)) + body["tilt"]


def subjects(count, per, rng):
    xs, ys = [], []
    for _ in range(count):
        body = dict(pace=rng.normal(1, .07), force=rng.normal(1, .12), tilt=np.r_[rng.normal(0, .1, 3), rng.normal(0, .05, 3)])
        for _ in range(per):
            k = int(rng.integers(4))
            xs.append(window(k, rng, body))
            ys.append(k)
    return np.array(xs, np.float32), np.array(ys)


for name in ("bug", "ok"):
    rng = np.random.default_rng(12)
    out = HERE / name
    out.mkdir(exist_ok=True)
    x, y = subjects(14, 180, rng)
    np.savez(out / "subjects_01_14.npz", signal=x, activity=y)
    x, y = subjects(6, 150, rng)
    if name == "bug":
        x = x[:, :, [0, 1, 2, 4, 5, 3]]
    np.savez(out / "subjects_15_20.npz", signal=x, activity=y)
