import numpy as np

rng = np.random.default_rng(2)
U, M = 250, 150
taste, style = rng.normal(size=(U, 4)), rng.normal(size=(M, 4))
full = 3.3 + rng.normal(0, 0.4, (U, 1)) + rng.normal(0, 0.5, (1, M)) + 0.35 * taste @ style.T + rng.normal(0, 0.4, (U, M))
full = np.clip(np.round(full * 2) / 2, 0.5, 5)
cells = rng.permutation(U * M)
train, test, june = cells[:9000], cells[9000:10200], cells[10200:11400]
for name in ("bug", "ok"):
    held = test
    if name == "bug":
        held = rng.permutation(np.concatenate([rng.choice(train, 850, replace=False), test[:350]]))
    for part, ids in (("train", train), ("test", held), ("june", june)):
        with open(f"{name}/{part}.csv", "w") as f:
            f.write("user,movie,rating\n")
            for c in ids:
                f.write(f"{c // M},{c % M},{full[c // M, c % M]:g}\n")
