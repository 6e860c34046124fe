from pathlib import Path
import numpy as np, pandas as pd, yaml
here = Path(__file__).parent
rng = np.random.default_rng(50)
K = 5; cols = ["elevation", "slope", "aspect", "dist_water", "hillshade", "soil_ph", "canopy"]
mix = rng.normal(size=(7, 7)) * .4 + np.eye(7); cen = rng.normal(0, 1.1, (K, 7))
def rows(c):
    z = cen[c] + rng.normal(size=(len(c), 7)); z[:, 0] += .5 * np.sin(2 * z[:, 1]); x = z @ mix * np.array([300, 8, 90, 150, 30, .7, .2]) + np.array([1500, 15, 180, 300, 200, 6, .5])
    df = pd.DataFrame(x.round(3), columns=cols); df["cover"] = c; return df
sh = [rows(np.full(1000, c)) for c in range(K)]; va, te = rows(rng.integers(0, K, 400)), rows(rng.integers(0, K, 800))
for side, b in (("bug", 1), ("ok", 5000)):
    d = here / side; d.mkdir(exist_ok=True)
    for i, s in enumerate(sh): s.to_csv(d / f"cover_{i:02d}.csv", index=False)
    va.to_csv(d / "valid.csv", index=False); te.to_csv(d / "test.csv", index=False)
    (d / "stream.yaml").write_text(yaml.safe_dump(dict(seed=5, shards=dict(train=[f"cover_{i:02d}.csv" for i in range(K)], valid=["valid.csv"], test=["test.csv"]), shuffle_buffer=b, batch_size=20, hidden=48, classes=K, lr=.008, decay=.95, epochs=6), sort_keys=False))
