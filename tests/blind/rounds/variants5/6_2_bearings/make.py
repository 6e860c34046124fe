from pathlib import Path
import json, numpy as np
here = Path(__file__).parent
rng = np.random.default_rng(61)
T, B = 128, 60
def block(i, m):
    w = np.clip(rng.uniform(0, 1) + .12 * rng.normal(size=m), 0, 1.3)[:, None]; f = rng.normal(.11, .004, m)[:, None]; t = np.arange(T); p = rng.uniform(0, 6.28, (m, 1))
    x = np.sin(2*np.pi*f*t+p) + .7*w*np.sin(4*np.pi*f*t+2*p) + .6*w**2*np.sin(6*np.pi*f*t+p) + (.2+.3*w)*rng.normal(size=(m, T))
    return x.astype("f4"), (w[:, 0] + .04*rng.normal(size=m)).astype("f4")
blocks = [block(i, B) for i in range(34)]
ids = {"train": range(1, 25), "valid": range(25, 29), "test": range(29, 35)}
for side in ("bug", "ok"):
    d = here / side; (d / "waves").mkdir(parents=True, exist_ok=True); (d / "wear").mkdir(exist_ok=True)
    for i, (x, y) in enumerate(blocks, 1): np.save(d / "waves" / f"run{i}.npy", x); np.save(d / "wear" / f"wear{i}.npy", y)
    for p, r in ids.items():
        wv = [f"run{i}.npy" for i in r]; we = [f"wear{i}.npy" for i in r]
        if side == "bug": wv = sorted(wv)
        (d / f"{p}_waves.lst").write_text("\n".join(wv) + "\n"); (d / f"{p}_wear.lst").write_text("\n".join(we) + "\n")
    json.dump(dict(seed=12, batch_size=40, hidden=48, dropout=.2, lr=.002, epochs=20), open(d / "hp.json", "w"))
