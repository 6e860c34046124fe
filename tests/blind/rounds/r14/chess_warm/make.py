"""Parity-style board puzzles and the run configuration."""
import json
import pathlib

import numpy as np

HERE = pathlib.Path(__file__).parent


def puzzles(rng, n):
    x = rng.integers(0, 2, size=(n, 18)) * 2 - 1
    y = ((x[:, 0] * x[:, 1] + x[:, 2] * x[:, 3] + x[:, 4] * x[:, 5]) > 0).astype(np.int64)
    return x.astype(np.int8), y


def write(folder, broken):
    rng = np.random.default_rng(23)
    folder.mkdir(exist_ok=True)
    for part, n in (("train", 3000), ("test", 800)):
        x, y = puzzles(rng, n)
        np.savez(folder / f"{part}.npz", x=x, y=y)
    cfg = {
        "model": {"width": 64, "depth": 2},
        "optim": {"name": "adamw", "lr": 0.003, "weight_decay": 0.01,
                  "schedule": "warmup_linear", "warmup_steps": 40000 if broken else 40, "total_steps": 700},
        "batch_size": 64,
        "seed": 23,
    }
    (folder / "run.json").write_text(json.dumps(cfg, indent=2))


for name in ("bug", "ok"):
    write(HERE / name, name == "bug")
