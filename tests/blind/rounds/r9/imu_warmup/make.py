import os
import numpy as np
rng = np.random.default_rng(1)
def draw(n, T=32):
    y = np.arange(n) % 5
    t = np.linspace(0, 1, T)
    x = np.zeros((n, T, 3))
    for i, c in enumerate(y):
        ph, sp = rng.uniform(-0.6, 0.6), rng.uniform(0.85, 1.15)
        w = 2 * np.pi * sp
        a = [(np.sin(w * t + ph), np.cos(w * t + ph), 0 * t), (np.sin(w * t + ph), -np.cos(w * t + ph), 0 * t),
             (np.sin(2 * w * t + ph), 0 * t, np.sin(w * t)), (0 * t, np.sin(2 * w * t + ph), np.cos(w * t)),
             (np.exp(-((t - .5 + ph / 6) / .1) ** 2) * 2, 0 * t, 0 * t)][c]
        x[i] = np.stack(a, 1) * rng.uniform(0.6, 1.3) + rng.normal(0, 0.35, (T, 3)) + [0, 0, 1]
    return (x * 1000).round().astype(np.int16), y.astype(np.int8)
tx, ty = draw(600); vx, vy = draw(200)
for name, warm in (("bug", 10000), ("ok", 20)):
    os.makedirs(name, exist_ok=True)
    np.savez_compressed(f"{name}/gestures.npz", train_x=tx, train_y=ty, valid_x=vx, valid_y=vy)
    open(f"{name}/config.yaml", "w").write(f"seed: 3\nepochs: 10\nbatch_size: 32\nlr: 0.004\nwarmup_steps: {warm}\nhidden: 40\ndropout: 0.1\nweight_decay: 0.01\n")
