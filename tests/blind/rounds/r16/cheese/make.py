import json
from pathlib import Path
import numpy as np

HERE = Path(__file__).resolve().parent

for side in ("bug", "ok"):
    rng = np.random.default_rng(8)
    out = HERE / side
    out.mkdir(exist_ok=True)
    centres = rng.normal(size=(10, 14))
    y = rng.integers(0, 10, 1800)
    x = centres[y] + 0.7 * rng.normal(size=(1800, 14))
    x[:, 3] = x[:, 3] * x[:, 5]
    np.savez(out / "aroma.npz", x=x.astype(np.float32), y=y)
    cfg = {
        "hidden": 32,
        "layers": 2,
        "dropout": 0.9 if side == "bug" else 0.1,
        "lr": 0.004,
        "epochs": 12,
        "batch_size": 60,
        "train_share": 0.75,
        "seed": 4,
    }
    (out / "config.json").write_text(json.dumps(cfg, indent=2))
