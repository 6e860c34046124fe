"""Writes bug/ and ok/: two-second motion windows of kata performances with the judges' score."""
import csv
import json
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
MOTION = ["hip_speed", "kime", "stance_depth", "knee_angle", "fist_path", "head_sway", "kick_height", "pause",
          "turn_rate", "guard_return", "rhythm", "balance"]
BODY = ["height", "arm_span", "leg_ratio", "shoulder_w", "sensor_tilt", "belt_offset", "torso_len", "wrist_off",
        "ankle_off", "stance_w", "mass", "gi_weight"]
SETTINGS = {
    "seed": 4, "train": "train.csv", "val": "val.csv", "target": "score", "motion": MOTION, "body": BODY,
    "epochs": 35, "batch": 48, "lr": 0.0006, "hidden": 80,
    "trials": [
        {"columns": ["motion"], "weight_decay": 0.3, "dropout": 0.3},
        {"columns": ["motion"], "weight_decay": 0.01, "dropout": 0.1},
        {"columns": ["motion", "body"], "weight_decay": 0.3, "dropout": 0.3},
        {"columns": ["motion", "body"], "weight_decay": 0.01, "dropout": 0.1},
    ],
}


def performances(rng, n):
    """One performance per athlete; the score belongs to the whole performance."""
    out = []
    for _ in range(n):
        skill, style = rng.normal(size=4), rng.normal(size=3)
        body = rng.normal(size=len(BODY))
        score = 7.4 + 0.32 * skill[0] + 0.28 * np.tanh(skill[1] + skill[0]) + 0.22 * skill[2] + 0.16 * skill[3] + rng.normal(0, 0.2)
        out.append((skill, style, body, round(float(np.clip(score, 5, 10)), 1)))
    return out


def windows(rng, perf, k, mix):
    skill, style, body, score = perf
    latent = np.concatenate([skill, style])
    motion = np.tanh(0.6 * latent @ mix) + rng.normal(0, 0.7, (k, len(MOTION)))
    return [[*m, *b, score] for m, b in zip(motion, body + rng.normal(0, 0.12, (k, len(BODY))))]


def main():
    rng = np.random.default_rng(63)
    mix = rng.normal(size=(7, len(MOTION)))
    known, other = performances(rng, 80), performances(rng, 40)
    train = [(a, w) for a, p in enumerate(known) for w in windows(rng, p, 16, mix)]
    first = [(a, w) for a, p in enumerate(known[:40]) for w in windows(rng, p, 12, mix)]
    second = [(a + 80, w) for a, p in enumerate(other) for w in windows(rng, p, 12, mix)]
    for side, val in (("bug", first), ("ok", second)):
        folder = HERE / side
        folder.mkdir(exist_ok=True)
        for name, rows in (("train.csv", train), ("val.csv", val)):
            with open(folder / name, "w", newline="") as f:
                w = csv.writer(f)
                w.writerow(["athlete", *MOTION, *BODY, "score"])
                w.writerows([f"K{a:03d}", *[f"{v:.3f}" for v in r[:-1]], r[-1]] for a, r in rows)
        (folder / "settings.json").write_text(json.dumps(SETTINGS, indent=1))


if __name__ == "__main__":
    main()
