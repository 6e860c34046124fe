import numpy as np

INI = """[model]
hidden = 48
dropout = 0.1

[optim]
lr = 0.003
momentum = 0.9
weight_decay = 0.0001
batch_size = 32
epochs = 16

[schedule]
kind = step
decay_every = {decay}
gamma = 0.5
"""


def lots(rng, n):
    x, y = [], []
    for _ in range(n):
        kind = rng.integers(0, 3)
        t = np.arange(28) / 4 + rng.uniform(5, 14)
        peak, width = [(11, 3.0), (14, 2.0), (19, 2.5)][kind]
        amp, weather = rng.uniform(0.5, 0.95), rng.normal(0, 0.06)
        occ = 0.05 + amp * np.exp(-((t - peak - rng.normal(0, 0.7)) / width) ** 2) + weather
        occ = occ + rng.normal(0, 0.025, 28)
        x.append(np.concatenate([occ[:20], [np.sin(t[19] / 24 * 6.2832), np.cos(t[19] / 24 * 6.2832)]]))
        y.append(occ[27])
    return np.array(x, dtype=np.float32), np.array(y, dtype=np.float32)


rng = np.random.default_rng(55)
xt, yt = lots(rng, 2600)
xv, yv = lots(rng, 600)
for side, decay in (("bug", 5), ("ok", 400)):
    np.savez_compressed(f"{side}/lots.npz", x_train=xt, y_train=yt, x_val=xv, y_val=yv)
    open(f"{side}/train.ini", "w").write(INI.format(decay=decay))
