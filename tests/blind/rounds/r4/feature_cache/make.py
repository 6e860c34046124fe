import sys, importlib.util
import numpy as np
sys.argv = ["train.py", "ok"]
spec = importlib.util.spec_from_file_location("t", "train.py"); t = importlib.util.module_from_spec(spec); spec.loader.exec_module(t)
rng = np.random.default_rng(6)
FR = ["CCO", "c1ccccc1", "C(=O)N", "C#N", "OC", "CBr", "N(C)C", "S(=O)", "CF", "C=C", "Cl", "B(O)O"]
w = rng.normal(0, 14, len(FR))
rows = []
for _ in range(1300):
    k = rng.choice(len(FR), rng.integers(3, 6), replace=False)
    rows.append(("".join(FR[i] for i in k), float(np.clip(50 + w[k].sum() + rng.normal(0, 4), 0, 100))))
fp = np.stack([t.fingerprint(s) for s, _ in rows])
for name in ("ok", "bug"):
    order = np.arange(len(rows)) if name == "ok" else np.argsort([s for s, _ in rows], kind="stable")
    np.save(f"{name}/fingerprints_cache.npy", fp[order])
    with open(f"{name}/reactions.csv", "w") as f:
        f.write("smiles,yield\n" + "".join(f"{s},{y:.1f}\n" for s, y in rows))
