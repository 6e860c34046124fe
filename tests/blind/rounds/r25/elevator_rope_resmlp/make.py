"""Inspection table of traction ropes of lifts: what the controller counted and what the rope tester measured."""
import os

import numpy as np

rng = np.random.default_rng(909)
BASE = [("rope_mm", "f4"), ("sheave_mm", "f4"), ("load_kg", "f4"), ("speed_m_s", "f4"), ("floors", "u1"),
        ("months_in_use", "u2"), ("machine_room_c", "f4"), ("wear_mm", "f4")]


def lifts(n):
    rope = rng.choice([8.0, 10.0, 11.0, 13.0], n)
    sheave = rope * rng.choice([38.0, 40.0, 44.0, 50.0], n)
    load = rng.normal(620, 160, n).clip(200, 1200)
    speed = rng.choice([0.63, 1.0, 1.6, 2.5], n)
    floors = rng.integers(3, 31, n)
    months = rng.integers(2, 170, n)
    room = rng.normal(27, 5, n)
    daily = rng.gamma(2.5, 42.0, n)
    starts = (months * 30.4 * daily).round()
    wear = (0.85 * (starts / 1e5) ** 0.8 * (load / 620) ** 1.3 * (40 / (sheave / rope)) ** 2
            * (0.85 + 0.15 * speed) * (10 / rope) ** 0.5 * (1 + 0.008 * (room - 27)))
    wear = wear * np.exp(rng.normal(0, 0.05, n)) + 0.0015 * months + rng.normal(0, 0.02, n)
    return dict(rope_mm=rope, sheave_mm=sheave, load_kg=load, speed_m_s=speed, floors=floors,
                months_in_use=months, machine_room_c=room, wear_mm=wear, starts=starts)


def pack(cols, counter):
    table = np.zeros(len(cols["starts"]), dtype=BASE + [("starts", counter)])
    for name in table.dtype.names:
        v = cols[name]
        kind = table.dtype[name]
        table[name] = v.astype(np.int64).astype(kind) if kind.kind in "iu" else v.astype(kind)
    return table


def main():
    fit, held = lifts(3000), lifts(900)
    for folder, counter in (("ok", "u4"),
                            ("bug", "u2")):
        os.makedirs(folder, exist_ok=True)
        np.save(os.path.join(folder, "train.npy"), pack(fit, counter))
        np.save(os.path.join(folder, "val.npy"), pack(held, counter))


if __name__ == "__main__":
    main()
