import json
from pathlib import Path
import numpy as np

AA = list("ACDEFGHIKLMNPQRSTVWY")
rng = np.random.default_rng(30)
def build(n):
    rows = []
    for _ in range(n):
        s = "M" + "".join(rng.choice(AA, size=int(rng.integers(32, 56))))
        y = int(rng.integers(0, 2))
        if y:
            s = s[:-4] + str(rng.choice(["KDEL", "HDEL", "KEEL", "RDEL"]))
        elif rng.random() < 0.3:
            s = s[:-4] + "".join(rng.permutation(list("KDEL")))
            s = s if not s.endswith("KDEL") else s[:-4] + "LDKE"
        if rng.random() < 0.06:
            y = 1 - y
        rows.append(f"{s}\t{'ER' if y else 'other'}")
    return "\n".join(rows) + "\n"
files = {"train.tsv": build(1500), "val.tsv": build(500)}
for d, m in (("ok", 60), ("bug", 28)):
    Path(d).mkdir(exist_ok=True)
    for k, v in files.items():
        (Path(d) / k).write_text(v)
    (Path(d) / "config.json").write_text(json.dumps({"max_len": m, "embed": 12, "hidden": 24, "lr": 0.006, "epochs": 5, "batch": 50, "seed": 8}, indent=2))
