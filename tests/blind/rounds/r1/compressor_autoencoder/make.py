import numpy as np

cols = [f"s{i:02d}" for i in range(14)]
for name in ("bug", "ok"):
    rng = np.random.default_rng(40)
    mix = rng.normal(size=(3, 14))
    leak = np.zeros(14)
    leak[[2, 5, 9, 12]] = [2.2, -1.8, 2.4, -2.0]

    def block(n, fault):
        load = rng.normal(size=(n, 3))
        x = load @ mix + 0.2 * rng.normal(size=(n, 14))
        severity = rng.uniform(0.5, 1.5, (n, 1))
        return x + leak * severity if fault else x

    healthy = block(1500, False)
    if name == "bug":
        healthy[rng.choice(1500, 270, replace=False)] = block(270, True)
    else:
        block(270, True), rng.choice(1500, 270, replace=False)
    test = np.concatenate([np.c_[block(250, False), np.zeros(250)], np.c_[block(150, True), np.ones(150)]])
    np.savetxt(f"{name}/healthy.csv", healthy, fmt="%.2f", delimiter=",", header=",".join(cols), comments="")
    np.savetxt(f"{name}/labelled_test.csv", test, fmt="%.2f", delimiter=",", header=",".join(cols) + ",fault", comments="")
