import json
import os

import numpy as np

ROOMS = 24
READINGS = 28


def grow(rng, n):
    room = rng.integers(0, ROOMS, n)
    t = np.arange(READINGS)
    temp = 18.0 + rng.normal(0, 1.5, (n, 1)) + np.cumsum(rng.normal(0, 0.35, (n, READINGS)), 1)
    rh = np.clip(88 + rng.normal(0, 3.0, (n, 1)) + np.cumsum(rng.normal(0, 0.7, (n, READINGS)), 1), 65, 99)
    co2 = 1100 + rng.normal(0, 200, (n, 1)) + np.cumsum(rng.normal(0, 70, (n, READINGS)), 1)
    co2 = np.clip(co2, 420, 3500)
    speed = np.exp(-((temp - 17.5) / 2.5) ** 2) * 1 / (1 + np.exp(-(rh - 85) / 2.5))
    pinning = ((t >= 8) & (t < 16)).astype(float)
    stress = (pinning * np.maximum(co2 - 1150, 0)).sum(1) / pinning.sum() / 400
    late = (t >= 14) * speed
    kg = 3.0 + 14.0 * speed.mean(1) + 10.0 * late.mean(1) - 4.0 * stress
    kg = np.maximum(kg + rng.normal(0, 0.4, n), 0.2)
    x = np.stack([temp + rng.normal(0, .1, temp.shape), rh + rng.normal(0, .4, rh.shape), co2], 2)
    return room, x.astype(np.float32), kg.astype(np.float32)


def settings():
    return {
        "seed": 5,
        "hidden": 32,
        "epochs": 30,
        "batch_size": 32,
        "optimizer": {"lr": 0.05, "momentum": 0.9, "weight_decay": 1e-5, "clip_norm": 1.0},
    }


def write(folder, cfg, room, x, kg):
    os.makedirs(folder, exist_ok=True)
    n_train = int(0.8 * len(kg))
    np.savez_compressed(os.path.join(folder, "flushes_train.npz"), room=room[:n_train], climate=x[:n_train], yield_kg_m2=kg[:n_train])
    np.savez_compressed(os.path.join(folder, "flushes_val.npz"), room=room[n_train:], climate=x[n_train:], yield_kg_m2=kg[n_train:])
    with open(os.path.join(folder, "settings.json"), "w") as f:
        json.dump(cfg, f, indent=2)


def main():
    room, x, kg = grow(np.random.default_rng(81), 1500)
    write("ok", settings(), room, x, kg)
    # the old half-precision loop clipped the gradients of the scaled loss; its value was divided by the loss scale at the move
    cfg = settings()
    cfg["optimizer"]["clip_norm"] = round(1.0 / 1024, 6)
    write("bug", cfg, room, x, kg)


if __name__ == "__main__":
    main()
