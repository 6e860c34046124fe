import numpy as np

HEAD = "firing,kiln,clay,quartz_pct,feldspar_pct,ramp_c_per_h,peak_temp,soak_min,cool_c_per_h,porosity_pct"


def firings(n, rng):
    rows = []
    for i in range(n):
        kiln = ["K1", "K2", "K3"][rng.integers(3)]
        clay = rng.integers(2)
        q, f = rng.uniform(10, 35), rng.uniform(8, 30)
        ramp, peak = rng.uniform(60, 220), rng.normal(1190, 55)
        soak, cool = rng.uniform(5, 70), rng.uniform(50, 250)
        heat = (peak - 1190) / 45 + 0.5 * np.log(soak / 25) - 0.3 * np.log(ramp / 130) + 0.05 * (f - 18)
        por = 1 + 17 / (1 + np.exp(1.3 * heat)) + 1.5 * clay + 0.06 * (q - 20) + rng.normal(0, 0.4)
        rows.append([i, kiln, ["stoneware", "porcelain"][1 - clay], q, f, ramp, peak, soak, cool, por])
    return rows


def write(path, rows, fahrenheit=()):
    with open(path, "w") as fh:
        fh.write(HEAD + "\n")
        for r in rows:
            r = list(r)
            if r[1] in fahrenheit:
                r[6] = r[6] * 9 / 5 + 32
            fh.write(",".join(v if isinstance(v, str) else (str(v) if isinstance(v, int) else f"{v:.2f}") for v in r) + "\n")


rng = np.random.default_rng(50)
train, test = firings(1500, rng), firings(400, rng)
for side in ("bug", "ok"):
    write(f"{side}/firings_2023.csv", train, fahrenheit=("K2",) if side == "bug" else ())
    write(f"{side}/firings_2024.csv", test)
