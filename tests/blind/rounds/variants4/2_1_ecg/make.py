from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
T = np.linspace(0, 1, 96)


def bump(c, w, a):
    return a * np.exp(-((T - c) / w) ** 2)


def person(rng):
    label = int(rng.integers(3))
    shape = (bump(0.2 + rng.normal(0, .02), 0.04 + rng.uniform(0, .02), rng.uniform(.1, .3)) + bump(0.42 + rng.normal(0, .02), 0.015 + rng.uniform(0, .015), 1.0)
             - bump(0.47 + rng.normal(0, .02), 0.02, rng.uniform(.1, .5)) + bump(0.7 + rng.normal(0, .03), 0.06 + rng.uniform(0, .03), rng.uniform(.15, .45)))
    shape = shape + [0, 0.16, -0.16][label] * ((T > 0.5) & (T < 0.62))
    for k in range(1, 9):
        shape = shape + rng.normal(0, .05) * np.sin(2 * np.pi * k * T + rng.uniform(0, 6))
    rr = 0.85 + [0, -0.07, 0.07][label] + rng.normal(0, .08)
    return dict(shape=shape, label=label, age=int(rng.integers(30, 88)), rr=rr)


def beats(people, ids, per, rng):
    out = dict(wave=[], age=[], rr=[], label=[], patient=[])
    for p, pid in zip(people, ids):
        for _ in range(per):
            out["wave"].append(p["shape"] * rng.normal(1, .1) + rng.normal(0, .05, 96) + rng.normal(0, .05))
            out["age"].append(p["age"])
            out["rr"].append(p["rr"] + rng.normal(0, .02))
            out["label"].append(p["label"])
            out["patient"].append(pid)
    order = rng.permutation(len(out["label"]))
    return {k: np.array(v)[order] for k, v in out.items()}


for name in ("bug", "ok"):
    rng = np.random.default_rng(31)
    out = HERE / name
    out.mkdir(exist_ok=True)
    first = [person(rng) for _ in range(110)]
    second = [person(rng) for _ in range(60)]
    if name == "bug":
        second = first[:60]
    ids = rng.permutation(np.arange(1000, 3000))[:170]
    for fn, d in (("train", beats(first, ids[:110], 20, rng)), ("valid", beats(second, ids[110:], 12, rng))):
        np.savez(out / f"{fn}.npz", **{k: v.astype(np.float32) if v.dtype == np.float64 else v for k, v in d.items()})
