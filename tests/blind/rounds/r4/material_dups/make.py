import numpy as np
rng = np.random.default_rng(4)
w = rng.standard_normal((12, 3))
def table(n):
    x = rng.standard_normal((n, 12))
    return np.concatenate([x, (1.0 * x @ w + rng.gumbel(0, 2.0, (n, 3))).argmax(1)[:, None]], 1)
train, valid, bench = table(700), table(250), table(600)
head = "entry," + ",".join(f"d{i}" for i in range(12)) + ",gap_class"
fmt = ["%d"] + ["%.3f"] * 12 + ["%d"]
def save(path, t, start):
    np.savetxt(path, np.concatenate([np.arange(start, start + len(t))[:, None], t], 1), fmt=fmt, delimiter=",", header=head, comments="")
dup = valid.copy()
pick = rng.permutation(250)[:212]
dup[pick] = train[rng.choice(700, 212, replace=False)]
for name, v in (("ok", valid), ("bug", dup)):
    save(f"{name}/train.csv", train, 1000)
    save(f"{name}/valid.csv", v, 5000)
    save(f"{name}/benchmark.csv", bench, 9000)
