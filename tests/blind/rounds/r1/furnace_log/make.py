import numpy as np

rng = np.random.default_rng(17)


def furnace(n):
    out, temp, rest = np.zeros(n), 900.0, 5
    for i in range(n):
        rest -= 1
        if rest <= 0:
            temp -= rng.uniform(120, 200)
            rest = rng.integers(18, 42)
        temp += 0.12 * (950 - temp)
        out[i] = temp + rng.normal(0, 2)
    return out


log, live = furnace(4000), furnace(800)
stamps = np.datetime64("2024-03-01T00:00") + np.arange(4800).astype("timedelta64[m]")
for name in ("bug", "ok"):
    order = np.arange(4000)[::-1] if name == "bug" else np.arange(4000)
    with open(f"{name}/historian.csv", "w") as f:
        f.write("time,temperature\n")
        f.writelines(f"{stamps[i]},{log[i]:.1f}\n" for i in order)
    with open(f"{name}/live_stream.csv", "w") as f:
        f.write("time,temperature\n")
        f.writelines(f"{stamps[4000 + i]},{live[i]:.1f}\n" for i in range(800))
