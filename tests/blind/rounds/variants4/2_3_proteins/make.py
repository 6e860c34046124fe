from pathlib import Path

import numpy as np

HERE = Path(__file__).parent

for name in ("bug", "ok"):
    rng = np.random.default_rng(4)
    out = HERE / name
    out.mkdir(exist_ok=True)
    n = 260
    latent = rng.normal(0, 1, (n, 6))
    desc = latent @ rng.normal(0, 1, (6, 20)) + rng.normal(0, 0.7, (n, 20))
    names = [f"P{v:05d}" for v in rng.permutation(90000)[:n]]
    pairs = []
    for lo, hi, count in ((0, 200, 3000), (200, n, 1000)):
        block = [(i, j) for i in range(lo, hi) for j in range(i + 1, hi)]
        pairs += [block[k] for k in rng.permutation(len(block))[:count]]
    for k, (i, j) in enumerate(pairs):
        z = 1.2 * (latent[i] * latent[j])[:3].sum() - 0.9 * np.abs(latent[i] - latent[j])[3:].sum() + 2.2
        flag = int(rng.random() < 1 / (1 + np.exp(-z)))
        if rng.random() < 0.5:
            i, j = j, i
        pairs[k] = (i, j, flag)
    train, valid = pairs[:3000], pairs[3000:]
    if name == "bug":
        back = [(j, i, f) for i, j, f in (train[k] for k in rng.permutation(3000)[:800])]
        valid = back + valid[:200]
    valid = [valid[k] for k in rng.permutation(len(valid))]
    (out / "proteins.txt").write_text("\n".join(names) + "\n")
    np.save(out / "descriptors.npy", desc.astype(np.float32))
    for fn, rows in (("pairs_train.tsv", train), ("pairs_valid.tsv", valid)):
        text = "first\tsecond\tinteract\n" + "".join(f"{names[i]}\t{names[j]}\t{f}\n" for i, j, f in rows)
        (out / fn).write_text(text)
