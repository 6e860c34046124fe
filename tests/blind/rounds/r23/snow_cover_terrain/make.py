import csv
from pathlib import Path

import numpy as np

rng = np.random.default_rng(14)
H, W, DAYS = 80, 120, 40


def smooth(z, n):
    for _ in range(n):
        for ax in (0, 1):
            z = (np.roll(z, 1, ax) + 2 * z + np.roll(z, -1, ax)) / 4
    return z


rough = sum(smooth(rng.normal(0, 1, (H, W)), n) * n ** 0.5 * a for n, a in ((150, 300), (30, 130), (6, 45)))
dem = 1600 + 420 * (rough - rough.mean()) / rough.std()
north_slope = -np.gradient(dem, 30, axis=0)                # row 0 is the northern edge
forest = (smooth(rng.normal(0, 1, (H, W)), 12) > 0.03) & (dem < 1900)

weather, snow = [], []
for d in range(DAYS):
    temp = float(rng.normal(1.0, 3.5))
    fall = float(max(rng.normal(4, 8), 0))
    sun = float(rng.uniform(0, 1))
    line = 1450 + 90 * temp - 9 * fall
    score = (dem - line) / 90 - (0.5 + 2.0 * sun) * north_slope * -0.9 - 0.8 * forest + smooth(rng.normal(0, 3, (H, W)), 3)
    snow.append((score + rng.normal(0, 0.4, (H, W)) > 0).astype(np.uint8))
    weather.append([d, round(temp, 1), round(fall, 1), round(sun, 2)])

for side in ("ok", "bug"):
    out = Path(__file__).parent / side
    out.mkdir(exist_ok=True)
    np.savez_compressed(out / "terrain.npz", dem=(dem if side == "ok" else dem[::-1]).astype(np.float32),
                        forest=forest.astype(np.uint8))
    np.savez_compressed(out / "snow.npz", mask=np.stack(snow))
    with open(out / "weather.csv", "w", newline="") as f:
        csv.writer(f).writerows([["day", "temp_c", "snowfall_cm", "sun_share"], *weather])
    (out / "config.toml").write_text('[data]\npatch = 9\ntrain_pixels = 5000\nvalid_pixels = 2500\nsplit_column = 80\n\n'
                                     '[train]\nepochs = 12\nbatch = 64\nlr = 0.002\nseed = 9\n')
