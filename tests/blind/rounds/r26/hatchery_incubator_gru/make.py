import json
import os

import numpy as np

COLUMNS = ["shell_temp_C", "humidity_pct", "co2_ppm", "turns_per_day", "air_speed_cm_s", "weight_loss_pct"]
DAYS = 18


def batch_of_eggs(rng):
    drift = lambda mean, sd, step: mean + sd * rng.normal() + np.cumsum(step * rng.normal(size=DAYS))
    temp = drift(37.8, 0.25, 0.08)
    humid = drift(54.0, 4.0, 1.0)
    co2 = 900 + 180 * np.arange(DAYS) + drift(0, 350, 90)
    turns = np.clip(np.round(drift(22, 4, 0.6)), 4, 30)
    air = drift(38, 7, 1.5)
    loss = np.cumsum(np.clip(0.66 - 0.018 * (humid - 54) + 0.15 * (temp - 37.8) + 0.02 * rng.normal(size=DAYS), 0.2, 1.2))
    week = np.exp(-np.arange(DAYS) / 8.0)
    heat = (week * (temp - 37.75) ** 2).sum() / week.sum()
    turning = np.clip(18 - turns[:10], 0, None).mean()
    hatch = 90 - 110 * heat - 1.6 * turning - 1.3 * (loss[-1] - 12.0) ** 2 - 4.0 * np.clip((co2[8:] - 3300) / 400, 0, None).mean()
    hatch += rng.normal(0, 1.5)
    return np.stack([temp, humid, co2, turns, air, loss], 1), float(np.clip(hatch, 5, 97))


def main():
    rng = np.random.default_rng(2031)
    eggs = [batch_of_eggs(rng) for _ in range(1500)]
    log = np.stack([e[0] for e in eggs]).round(2)
    hatch = np.array([e[1] for e in eggs]).round(1)
    train = np.arange(len(eggs)) < 1200
    flat = {c: log[train][:, :, i].ravel() for i, c in enumerate(COLUMNS)}
    for side in ("bug", "ok"):
        os.makedirs(side, exist_ok=True)
        np.savez_compressed(f"{side}/incubator_log.npz", log=log.astype(np.float32), hatch_pct=hatch.astype(np.float32),
                            columns=np.array(COLUMNS), split=np.where(train, "train", "val"))
        order = COLUMNS if side == "ok" else sorted(COLUMNS)
        scaling = {"columns": COLUMNS, "mean": [round(float(flat[c].mean()), 4) for c in order],
                   "std": [round(float(flat[c].std()), 4) for c in order], "batches": int(train.sum())}
        with open(f"{side}/scaling.json", "w") as f:
            json.dump(scaling, f, indent=2)
        with open(f"{side}/run.ini", "w") as f:
            f.write("[model]\nhidden = 32\nclip = 4.0\n\n[training]\nlr = 0.004\nepochs = 16\nbatch = 50\nseed = 7\n")


if __name__ == "__main__":
    main()
