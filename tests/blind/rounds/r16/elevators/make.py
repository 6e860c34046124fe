import json
from pathlib import Path
import numpy as np

HERE = Path(__file__).resolve().parent
SHARE = np.array([0.86, 0.08, 0.04, 0.02])

for side in ("bug", "ok"):
    rng = np.random.default_rng(50)
    out = HERE / side
    out.mkdir(exist_ok=True)
    centre = 1.0 * rng.normal(size=(4, 10))
    for part, n, share in (("train", 2000, SHARE), ("test", 2500, SHARE)):
        y = rng.choice(4, n, p=share)
        x = centre[y] + 1.0 * rng.normal(size=(n, 10))
        np.savez(out / f"{part}.npz", x=x.astype(np.float32), y=y)
        if part == "train":
            freq = np.bincount(y, minlength=4) / n
    w = freq if side == "bug" else 1 / freq
    w = w / w.mean()
    names = ["normal", "door", "brake", "rope"]
    (out / "weights.json").write_text(json.dumps({k: round(float(v), 4) for k, v in zip(names, w)}))
