import json
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
FINGERS = ["thumb", "index", "middle", "ring", "little"]
# flexion of the five fingers at the start and at the end of the gesture
GESTURES = {
    "grab": ([.2, .3, .3, .3, .3], [.6, .8, .8, .8, .8]),
    "hook": ([.2, .3, .3, .3, .3], [.3, .5, .5, .5, .5]),
    "point": ([.3, .3, .3, .3, .3], [.6, .2, .8, .8, .8]),
    "pinch": ([.2, .3, .3, .3, .3], [.7, .7, .4, .3, .3]),
    "tripod": ([.2, .3, .3, .3, .3], [.7, .7, .7, .3, .3]),
    "peace": ([.3, .3, .3, .3, .3], [.7, .2, .2, .7, .7]),
    "call": ([.3, .3, .3, .3, .3], [.1, .7, .8, .7, .1]),
    "horns": ([.3, .3, .3, .3, .3], [.6, .2, .8, .8, .1]),
}


def main():
    rng = np.random.default_rng(17)
    n_sub, frames = 24, 24
    calib, x, y, who = {}, [], [], []
    for s in range(n_sub):
        open_ = rng.uniform(120, 480, 5)
        span = rng.uniform(90, 480, 5)
        name = f"p{s + 1:02d}"
        closed = open_ + span
        calib[name] = (np.round(open_).tolist(), np.round(closed).tolist())
        for _ in range(60):
            g = rng.integers(len(GESTURES))
            a, b = (np.array(v) for v in list(GESTURES.values())[g])
            t = np.linspace(0, 1, frames)
            prog = 1 / (1 + np.exp(-(t - rng.uniform(.35, .65)) * rng.uniform(6, 14)))
            depth = rng.normal(1, .15)
            flex = a + (b - a) * prog[:, None] * depth + rng.normal(0, .1, 5)
            flex += rng.normal(0, .04, flex.shape)
            acc = rng.normal(0, .3, 3) + rng.normal(0, .25, (frames, 3))
            acc[:, 2] += .2 * np.gradient(prog) * frames / 4 * (1 if g in (0, 3, 5) else -1)
            x.append(np.concatenate([np.round(open_ + span * flex), np.round(acc * 200)], 1))
            y.append(g)
            who.append(name)
    x = np.array(x).astype(np.int16)
    order = {"ok": slice(None), "bug": slice(None, None, -1)}
    for side in ("bug", "ok"):
        folder = HERE / side
        folder.mkdir(exist_ok=True)
        np.savez_compressed(folder / "recordings.npz", signal=x, gesture=np.array(y), person=np.array(who))
        table = {p: {"open": o[order[side]], "closed": c[order[side]]} for p, (o, c) in calib.items()}
        (folder / "calibration.json").write_text(json.dumps(table, indent=1))
        (folder / "setup.json").write_text(json.dumps({
            "gestures": list(GESTURES), "validation_people": ["p03", "p08", "p12", "p15", "p19", "p22", "p24"],
            "epochs": 14, "batch_size": 32, "lr": 0.003, "hidden": 40}, indent=1))


main()
