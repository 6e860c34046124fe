import numpy as np


def drive(n, seed, horizon=60):
    rng = np.random.default_rng(seed)
    off, head, curv = 1.5 * rng.standard_normal(n), 0.3 * rng.standard_normal(n), np.zeros(n)
    O, A = [], []
    for _ in range(horizon):
        obs = np.stack([off, head, curv], 1)
        steer = np.clip(2 * (-np.arctan(0.8 * off) - head) + 5 * curv, -1, 1)
        O.append(obs), A.append(steer)
        curv = 0.9 * curv + 0.02 * rng.standard_normal(n)
        head = head + 0.2 * steer - curv + 0.05 * rng.standard_normal(n)
        off = off + 0.4 * np.sin(head)
    # drive after drive
    return np.stack(O, 1).reshape(-1, 3).astype(np.float32), np.stack(A, 1).reshape(-1).astype(np.float32)


o, a = drive(50, 1)
vo, va = drive(15, 2)
for name, act in [("ok", a), ("bug", np.roll(a, 6))]:
    np.savez_compressed(f"{name}/demos_train.npz", obs=o, steer=act)
    np.savez_compressed(f"{name}/demos_val.npz", obs=vo, steer=va)
