import json, numpy as np
rng = np.random.default_rng(12); A = rng.normal(0, 1, (2, 8)); B = rng.normal(0, 1, (2, 8))
n, f = 1800, 500
N = rng.normal(0, 1, (n, 2)) @ A + rng.normal(0, .2, (n, 8)); Fa = 0.8 * rng.normal(0, 1, (f, 2)) @ B + rng.normal(0, .3, (f, 8))
t = np.column_stack([np.r_[N, Fa], np.r_[np.zeros(n), np.ones(f)]])[rng.permutation(n + f)]
for k, c in (("bug", 1), ("ok", 0)):
    np.savetxt(f"{k}/machine.csv", t, ["%.3f"] * 8 + ["%d"], ",", header=",".join([f"vib{i}" for i in range(8)] + ["status"]), comments="")
    json.dump({"normal_code": c, "bottleneck": 2, "epochs": 20, "batch_size": 40, "lr": 0.005, "fault_code": 1}, open(f"{k}/settings.json", "w"), indent=1)
