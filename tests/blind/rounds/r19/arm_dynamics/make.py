import os

import numpy as np

HEAD = "t,q1,q2,dq1,dq2,tau1,tau2,ddq1,ddq2"


def rollouts(n_runs, steps, seed):
    rng = np.random.default_rng(seed)
    m1, m2, l1, l2, g, dt = 1.2, 0.8, 0.5, 0.4, 9.81, 0.02
    rows = []
    for _ in range(n_runs):
        q, dq = rng.uniform(-1.5, 1.5, 2), rng.normal(0, 1, 2)
        ph, fr = rng.uniform(0, 6.28, 2), rng.uniform(.5, 3, 2)
        for k in range(steps):
            t = k * dt
            tau = np.array([6, 2.5]) * np.sin(fr * t * 6.28 + ph) + rng.normal(0, .5, 2)
            c2, s2 = np.cos(q[1]), np.sin(q[1])
            M = np.array([[(m1 + m2) * l1**2 + m2 * l2**2 + 2 * m2 * l1 * l2 * c2, m2 * l2**2 + m2 * l1 * l2 * c2],
                          [m2 * l2**2 + m2 * l1 * l2 * c2, m2 * l2**2]]) + .05 * np.eye(2)
            h = m2 * l1 * l2 * s2
            C = np.array([-h * (2 * dq[0] * dq[1] + dq[1]**2), h * dq[0]**2])
            G = np.array([(m1 + m2) * g * l1 * np.sin(q[0]) + m2 * g * l2 * np.sin(q.sum()), m2 * g * l2 * np.sin(q.sum())])
            ddq = np.linalg.solve(M, tau - C - G - 0.4 * dq)
            rows.append([t, *q, *dq, *tau, *(ddq + rng.normal(0, .3, 2))])
            dq = np.clip(dq + dt * ddq, -8, 8)
            q = np.clip(q + dt * dq, -2.6, 2.6)
            dq[np.abs(q) >= 2.6] *= -.5
    return np.array(rows)


train, valid = rollouts(80, 100, 1), rollouts(25, 100, 2)
for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    v = valid.copy()
    if side == "bug":
        v[:, 1:5] = np.degrees(v[:, 1:5])
    for name, a in (("train", train), ("valid", v)):
        np.savetxt(f"{side}/{name}.csv", a, delimiter=",", header=HEAD, comments="", fmt="%.4f")
