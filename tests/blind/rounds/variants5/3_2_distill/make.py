from pathlib import Path
import json, numpy as np
here = Path(__file__).parent
rng = np.random.default_rng(44)
names = ["circle", "swipe", "shake", "tap", "push"]
T = 40; t = np.arange(T) / T
def one(c):
    f = rng.normal(2, .15); p = rng.uniform(0, 6.28); a = rng.lognormal(0, .2)
    z = np.zeros((3, T))
    if c == 0: z[0] = np.sin(2*np.pi*f*t+p); z[1] = np.cos(2*np.pi*f*t+p)
    if c == 1: z[0] = np.sin(2*np.pi*t) * 1.5 * rng.choice([-1, 1])
    if c == 2: z[0] = np.sin(2*np.pi*6*t+p); z[1] = .5*np.sin(2*np.pi*6*t+p)
    if c == 3: z[2] = 2.2*np.exp(-((t-rng.uniform(.2, .8))/.04)**2)
    if c == 4: z[2] = 1.2*np.sin(2*np.pi*t); z[1] = .3*np.sin(2*np.pi*t)
    return a*z + .55*rng.normal(size=(3, T)) + np.array([[0], [0], [9.8]])
def part(n):
    y = rng.integers(0, 5, n); return np.stack([one(c) for c in y]).astype("f4"), y
tr, va, te = part(1500), part(300), part(500)
lg = rng.normal(0, 1, (1500, 5)); lg[np.arange(1500), tr[1]] += 6
alpha = np.argsort(names)
for side in ("bug", "ok"):
    d = here / side; d.mkdir(exist_ok=True)
    for p, (x, y) in zip(("train", "valid", "test"), (tr, va, te)): np.savez(d / f"{p}.npz", accel=x, gesture=y)
    np.save(d / "teacher_logits.npy", (lg[:, alpha] if side == "bug" else lg).astype("f4"))
    json.dump(dict(seed=2, classes=names, alpha=.8, temperature=3.0, lr=.003, batch_size=50, epochs=14), open(d / "distill.json", "w"))
