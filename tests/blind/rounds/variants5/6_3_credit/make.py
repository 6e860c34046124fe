from pathlib import Path
import numpy as np, pandas as pd, yaml
here = Path(__file__).parent
rng = np.random.default_rng(71)
F = ["income", "debt_ratio", "utilisation", "late_30d", "late_90d", "open_lines", "age", "employment_years", "inquiries", "loan_amount", "term_months", "savings"]
n = 1600
z = rng.normal(size=(n, 12)) @ (np.eye(12) + .25 * rng.normal(size=(12, 12)))
lg = 1.0 * z[:, 1] + .8 * z[:, 2] + .7 * z[:, 3] - .9 * z[:, 0] - .5 * z[:, 11] - .9
y = (rng.random(n) < 1 / (1 + np.exp(-.45 * lg))).astype(int)
df = pd.DataFrame((z * 10 + 50).round(3), columns=F); df["default"] = y
names = [f"part-{i:04d}.csv" for i in range(16)]
ok = dict(train=names[:10], valid=names[10:12], test=names[12:])
bug = dict(train=names, valid=names[10:12], test=names[12:])
for side, files in (("bug", bug), ("ok", ok)):
    d = here / side; (d / "parts").mkdir(parents=True, exist_ok=True)
    for i, nm in enumerate(names): df.iloc[i * 100:(i + 1) * 100].to_csv(d / "parts" / nm, index=False)
    (d / "run.yaml").write_text(yaml.safe_dump(dict(seed=3, files=files, width=64, depth=2, lr=.002, weight_decay=.01, batch_size=50, epochs=18), sort_keys=False))
