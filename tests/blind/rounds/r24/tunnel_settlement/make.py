import configparser
import pathlib

import numpy as np

FEATURES = ["thrust", "torque", "face_pressure", "grout_volume", "advance", "cover_depth"]
STEPS, PER_SECTION = 12, 330


def section(rng, n):
    """Windows of 12 rings before a surface point; vertical displacement of the point in mm, heave positive."""
    soft = rng.normal(0.0, 1.0, n)                                     # soil stiffness, not measured
    cover = rng.uniform(8, 24, n)
    t = np.arange(STEPS)
    x = np.empty((n, STEPS, 6))
    drift = rng.normal(0, 0.25, (n, 5))
    noise = rng.normal(0, 0.35, (n, STEPS, 5)).cumsum(1) * 0.5
    x[..., 0] = 14 - 2.2 * soft[:, None] + drift[:, :1] * t * 0.3 + noise[..., 0]
    x[..., 1] = 3.1 - 0.5 * soft[:, None] + 0.2 * noise[..., 1]
    x[..., 2] = 0.11 * cover[:, None] + 0.35 + 0.06 * drift[:, 2:3] * t + 0.15 * noise[..., 2]
    x[..., 3] = 6.0 + 0.8 * drift[:, 3:4] + 0.4 * noise[..., 3]
    x[..., 4] = 38 + 6 * soft[:, None] + 4 * noise[..., 4]
    x[..., 5] = cover[:, None] + rng.normal(0, 0.05, (n, STEPS))
    late = np.exp(-(STEPS - 1 - t) / 4.0)
    late /= late.sum()
    support = ((x[..., 2] - 0.11 * x[..., 5] - 0.35) * late).sum(1)
    grout = ((x[..., 3] - 6.0) * late).sum(1)
    y = -11.0 * np.exp(0.25 * soft) * (16 / cover) ** 0.6 + 9.0 * support + 3.2 * grout - 0.08 * np.abs(x[:, -1, 4] - 38)
    return x.astype(np.float32), (y + rng.normal(0, 0.6, n)).astype(np.float32)


def main():
    rng = np.random.default_rng(4096)
    parts = [section(rng, PER_SECTION) for _ in range(6)]
    here = pathlib.Path(__file__).resolve().parent
    for side in ("bug", "ok"):
        out = here / side
        out.mkdir(exist_ok=True)
        for k, (x, y) in enumerate(parts, 1):
            down_positive = side == "bug" and k == 4
            np.savez_compressed(out / f"section_{k:02d}.npz", tbm=x, displacement_mm=-y if down_positive else y,
                                features=np.array(FEATURES))
        cfg = configparser.ConfigParser()
        cfg["model"] = {"hidden": "48"}
        cfg["train"] = {"epochs": "16", "batch": "48", "lr": "0.004", "val_share": "0.2", "seed": "10"}
        with open(out / "run.ini", "w") as f:
            cfg.write(f)


if __name__ == "__main__":
    main()
