import pathlib
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
INI = """[data]
segments = seg_01, seg_02, seg_03, seg_04, seg_05, seg_06
inputs = depth_m, d18o, dust_count, sodium_ppb, calcium_ppb, conductivity
target = temp_anomaly
val_share = 0.25

[model]
hidden = 64
dropout = 0.05

[optim]
lr = 0.002
weight_decay = 0.0001
batch = 48
epochs = 22
seed = 90
"""


def segment(rng, k, n):
    depth = k * 120 + np.sort(rng.uniform(0, 120, n))
    climate = rng.normal(0, 1, n)
    dust = np.clip(np.round(150000 - 60000 * climate + rng.normal(0, 12000, n)), 1000, None).astype(np.int64)
    season = rng.normal(0, 1, n)
    d18o = -35 + 1.1 * climate + 1.6 * rng.normal(0, 1, n)
    sodium = np.exp(3.5 - 0.2 * climate + 0.4 * season)
    calcium = np.exp(2.5 - 0.25 * climate + 0.6 * rng.normal(0, 1, n))
    cond = 12 + 1.5 * season + rng.normal(0, 0.7, n)
    temp = 2.2 * climate + 0.5 * season - 0.003 * (depth - 360) + rng.normal(0, 0.3, n)
    return {"depth_m": depth, "d18o": d18o, "dust_count": dust, "sodium_ppb": sodium, "calcium_ppb": calcium,
            "conductivity": cond, "temp_anomaly": temp}


for side in ("bug", "ok"):
    out = HERE / side
    out.mkdir(exist_ok=True)
    rng = np.random.default_rng(414)
    for k in range(6):
        cols = segment(rng, k, 400)
        if side == "bug":
            cols["dust_count"] = cols["dust_count"].astype(np.int16).astype(np.int64)
        np.savez_compressed(out / f"seg_{k + 1:02d}.npz",
                            **{c: v.astype(np.int32 if c == "dust_count" else np.float32) for c, v in cols.items()})
    (out / "run.ini").write_text(INI)
