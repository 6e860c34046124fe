from datetime import date, timedelta
from pathlib import Path
import numpy as np

HERE = Path(__file__).resolve().parent

for side in ("bug", "ok"):
    rng = np.random.default_rng(18)
    out = HERE / side
    out.mkdir(exist_ok=True)
    days = [date(2020, 1, 1) + timedelta(d) for d in range(1100)]
    wave, level = 0.0, []
    for d in days:
        wave = 0.95 * wave + rng.normal(0, 3)
        level.append(120 + 15 * np.cos(2 * np.pi * d.timetuple().tm_yday / 365) + wave
                     + [12, 6, 2, 0, -2, -20, -25][d.weekday()] + rng.normal(0, 2))
    lines = [f"{d.day}.{d.month}.{d.year};{v:.0f}" for d, v in zip(days, level)]
    train, test = lines[:900], lines[900:]
    if side == "bug":
        train = sorted(train)
    for name, part in (("bis_2022.csv", train), ("ab_2022.csv", test)):
        (out / name).write_text("datum;aufnahmen\n" + "\n".join(part) + "\n")
