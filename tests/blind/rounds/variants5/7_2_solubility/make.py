from pathlib import Path
import json, numpy as np, pandas as pd
here = Path(__file__).parent
rng = np.random.default_rng(23)
n = 3000
mw = rng.gamma(9, 35, n).clip(60); hbd = rng.poisson(1.5, n); hba = rng.poisson(3, n) + hbd; rot = rng.poisson(mw / 80); ar = rng.poisson(mw / 200)
logp = .009 * mw - .5 * hba + .5 * ar + rng.normal(0, 1, n); tpsa = 12 * hba + 14 * hbd + rng.normal(0, 8, n).clip(-20); rings = ar + rng.poisson(.5, n)
mp = 80 + .2 * mw + 25 * ar - 10 * rot + 12 * hbd + rng.normal(0, 25, n)
fp = (rng.random((n, 30)) < rng.uniform(.1, .5, 30)).astype(int)
y = .5 - 1.0 * logp - .01 * (mp - 25) + .15 * np.minimum(hbd, 3) * (logp > 2) + (fp @ rng.normal(0, .45, 30)) + .5 * fp[:, 0] * fp[:, 1] - .4 * np.tanh(logp - 3) + rng.normal(0, .3, n)
df = pd.DataFrame(dict(name=[f"mol{i:05d}" for i in range(n)], mol_weight=mw.round(1), h_donors=hbd, h_acceptors=hba, rot_bonds=rot, aromatic_rings=ar, log_p=logp.round(2), tpsa=tpsa.round(1), rings=rings, melting_point=mp.round(0)))
for i in range(30): df[f"frag_{i}"] = fp[:, i]
df["log_s"] = y.round(3)
for side, m in (("bug", 64), ("ok", 0)):
    d = here / side; d.mkdir(exist_ok=True)
    df.to_csv(d / "molecules.csv", index=False)
    json.dump(dict(seed=10, debug=dict(max_rows=m, verbose=False), model=dict(width=64, dropout=.05), optim=dict(lr=.003, weight_decay=.01, batch_size=50, epochs=25)), open(d / "settings.json", "w"), indent=2)
