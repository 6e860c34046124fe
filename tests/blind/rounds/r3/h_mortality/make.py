import numpy as np

rng = np.random.default_rng(0)
head = "age,heart_rate,systolic,lactate,creatinine,spo2"


def cohort(n):
    z = rng.standard_normal((n, 6))
    x = z * [14, 18, 20, 1.2, 0.6, 3] + [64, 88, 122, 2.4, 1.2, 95]
    risk = 0.8 * z[:, 0] + 0.5 * z[:, 1] - 0.5 * z[:, 2] + 0.9 * z[:, 3] + 0.4 * z[:, 4] - 0.6 * z[:, 5] - 0.6
    y = rng.random(n) < 1 / (1 + np.exp(-risk))
    return x, y.astype(int)


for name, n in [("train", 1200), ("val", 400), ("admissions", 400)]:
    x, y = cohort(n)
    code = np.where(y == 1, 7, rng.integers(1, 4, n)) if name != "admissions" else np.zeros(n)
    np.savetxt(f"ok/{name}.csv", np.c_[x, y], delimiter=",", fmt=["%.2f"] * 6 + ["%d"], header=head + ",died", comments="")
    np.savetxt(f"bug/{name}.csv", np.c_[x, code, y], delimiter=",", fmt=["%.2f"] * 6 + ["%d", "%d"], header=head + ",discharge_code,died", comments="")
