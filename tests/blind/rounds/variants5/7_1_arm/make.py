from pathlib import Path
import numpy as np
here = Path(__file__).parent
rng = np.random.default_rng(14)
q, dq, ddq, run = [], [], [], []
t = np.linspace(0, 4, 40)[:, None]
for r in range(110):
    a = rng.normal(0, .35, (3, 2)); w = rng.uniform(.5, 1.4, (3, 2)); p = rng.uniform(0, 6.28, (3, 2))
    q.append(sum(a[i] * np.sin(w[i] * t + p[i]) for i in range(3))); dq.append(sum(a[i] * w[i] * np.cos(w[i] * t + p[i]) for i in range(3)))
    ddq.append(sum(-a[i] * w[i] ** 2 * np.sin(w[i] * t + p[i]) for i in range(3))); run.append(np.full(40, r))
q, dq, ddq, run = map(np.concatenate, (q, dq, ddq, run))
c2, s2 = np.cos(q[:, 1]), np.sin(q[:, 1])
t1 = (1.6 + .8 * c2) * ddq[:, 0] + (.4 + .4 * c2) * ddq[:, 1] - .4 * s2 * (2 * dq[:, 0] * dq[:, 1] + dq[:, 1] ** 2) + 9.8 * np.cos(q[:, 0]) + 3 * np.cos(q[:, 0] + q[:, 1]) + .3 * dq[:, 0]
t2 = (.4 + .4 * c2) * ddq[:, 0] + .5 * ddq[:, 1] + .4 * s2 * dq[:, 0] ** 2 + 3 * np.cos(q[:, 0] + q[:, 1]) + .2 * dq[:, 1]
tau = np.stack([t1, t2], 1) + .02 * rng.normal(size=(len(q), 2))
zero = np.array([611204.0, 478310.0])
for side, dt in (("bug", "bfloat16"), ("ok", "float32")):
    d = here / side; d.mkdir(exist_ok=True)
    np.savez(d / "trajectories.npz", counts=np.round(zero + q * 131072 / (2 * np.pi)), zero=zero, dq=dq, ddq=ddq, torque=tau, run=run)
    (d / "settings.env").write_text(f"# arm experiment\nARM_SEED=5\nARM_THREADS=1\nARM_DTYPE={dt}\nARM_COUNTS_PER_TURN=131072\nARM_WIDTH=64\nARM_LR=0.003\nARM_BATCH=50\nARM_EPOCHS=25\n")
