import os
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(12)
D, A = 420, 40
value = np.zeros((D, A))
flow = rng.normal(size=(D, A))
for t in range(1, D):
    value[t] = 0.9 * value[t - 1] + 0.44 * rng.normal(size=A)
size = np.broadcast_to(rng.normal(size=A), (D, A))
ret = np.zeros((D, A))
for t in range(1, D):
    ret[t] = 0.012 * (0.35 * value[t - 1] + 0.3 * flow[t - 1] * (size[0] > 0) + rng.normal(size=A))
vol = np.zeros((D, A))
mom_trail = np.full((D, A), np.nan)
mom_mid = np.full((D, A), np.nan)
for t in range(5, D - 3):
    vol[t] = ret[t - 4:t + 1].std(0)
    mom_trail[t] = ret[t - 4:t + 1].mean(0)
    mom_mid[t] = ret[t - 2:t + 3].mean(0)


def write(path, days, mom):
    with open(path, "w") as f:
        f.write("day,asset,value,flow,size,vol5,mom5,fwd_ret\n")
        for t in days:
            for a in range(A):
                f.write(f"{t},{a},{value[t, a]:.5f},{flow[t, a]:.5f},{size[t, a]:.5f},{vol[t, a]:.6f},{mom[t, a]:.6f},{ret[t + 1, a]:.6f}\n")


for name, mom in (("ok", mom_trail), ("bug", mom_mid)):
    d = os.path.join(HERE, name)
    os.makedirs(d, exist_ok=True)
    write(os.path.join(d, "history.csv"), range(5, 320), mom)
    write(os.path.join(d, "live.csv"), range(325, 415), mom_trail)
