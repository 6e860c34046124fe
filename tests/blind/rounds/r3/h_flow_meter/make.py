import numpy as np

rng = np.random.default_rng(2)


def make(n):
    pulses = rng.uniform(2000, 60000, n).round()
    temp, visc = rng.uniform(5, 60, n), rng.uniform(0.5, 4, n)
    flow = pulses / 1000 * (1 + 0.002 * (temp - 20)) * (1 - 0.05 * np.log(visc)) + 0.2 * rng.standard_normal(n)
    return dict(pulses=pulses.astype(np.int32), temperature=temp.astype(np.float32), viscosity=visc.astype(np.float32), flow=flow.astype(np.float32))


tr, va = make(1500), make(400)
np.savez_compressed("ok/train.npz", **tr)
np.savez_compressed("bug/train.npz", **{**tr, "pulses": tr["pulses"].astype(np.int16)})
for d in ("ok", "bug"):
    np.savez_compressed(f"{d}/val.npz", **va)
