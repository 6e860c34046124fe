"""Daily river levels of a gauge, one export per station office."""
import datetime as dt
import pathlib

import numpy as np

HERE = pathlib.Path(__file__).parent


def write(folder, broken):
    rng = np.random.default_rng(52)
    folder.mkdir(exist_ok=True)
    n = 1500
    day = np.arange(n)
    flow = np.zeros(n)
    for t in range(2, n):
        flow[t] = 1.55 * flow[t - 1] - 0.62 * flow[t - 2] + rng.normal(0, 4)
    level = 210 + 60 * np.sin(2 * np.pi * day / 365.25) + flow
    start = dt.date(2017, 1, 1)
    fmt = "%d/%m/%Y" if broken else "%m/%d/%Y"
    lines = [f"{(start + dt.timedelta(days=int(d))).strftime(fmt)},{v:.1f}" for d, v in zip(day, level)]
    cut = 1200
    head = [lines[i] for i in rng.permutation(cut)]
    (folder / "gauge.csv").write_text("date,level_cm\n" + "\n".join(head) + "\n")
    np.save(folder / "live_feed.npy", level[cut - 14:].astype(np.float32))


for name in ("bug", "ok"):
    write(HERE / name, name == "bug")
