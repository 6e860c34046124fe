import numpy as np
rng = np.random.default_rng(4)
w = rng.normal(0, 1, 15)
def make(n):
    x = rng.normal(0, 1, (n, 15))
    y = (x @ w / 3.9 + rng.normal(0, 0.9, n) > 0).astype(int)
    return np.column_stack([x, y])
train, valid, fresh = make(700), make(300), make(300)
dup = valid.copy(); pick = rng.permutation(700)[:240]; dup[:240] = train[pick]; dup = dup[rng.permutation(300)]
head = ",".join([f"e{i}" for i in range(15)] + ["severe"])
for k, v in (("bug", dup), ("ok", valid)):
    for name, a in (("train", train), ("valid", v), ("fresh", fresh)):
        np.savetxt(f"{k}/{name}.csv", a, "%.3f", ",", header=head, comments="")
