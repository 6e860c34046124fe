import numpy as np

rng = np.random.default_rng(55)
P = {
    0: [[(0, 1), (-.6, .5), (-.6, -.5), (0, -1), (.6, -.5), (.6, .5), (0, 1)]],
    1: [[(-.3, .6), (0, 1), (0, -1)]],
    2: [[(-.5, .6), (0, 1), (.5, .5), (-.5, -1), (.6, -1)]],
    3: [[(-.5, .8), (.3, .9), (0, .1), (.5, -.5), (-.5, -.9)]],
    4: [[(0, 1), (-.6, -.2), (.6, -.2)], [(.3, .4), (.3, -1)]],
    5: [[(.4, 1), (-.4, 1), (-.4, .1), (.5, -.3), (-.4, -1)]],
    6: [[(.4, 1), (-.5, 0), (-.3, -1), (.5, -.6), (-.4, -.2)]],
    7: [[(-.5, 1), (.6, 1), (-.1, -1)]],
    8: [[(.4, .7), (-.4, .8), (.4, -.6), (-.3, -.9), (-.3, -.3), (.4, .7)]],
    9: [[(.4, .6), (-.3, .9), (-.3, .2), (.4, .4), (.2, -1)]],
}
T = 56


def write(d):
    ang, sc, slant = rng.normal(0, .13), rng.uniform(.7, 1.2), rng.normal(0, .2)
    rot = np.array([[np.cos(ang), -np.sin(ang)], [np.sin(ang), np.cos(ang)]]) @ np.array([[1, slant], [0, 1]]) * sc
    step = rng.uniform(.15, .21)
    out = []
    for s in P[d]:
        p = (np.array(s) + rng.normal(0, .09, (len(s), 2))) @ rot.T
        pts = [p[0]]
        for a, b in zip(p[:-1], p[1:]):
            n = max(2, int(np.hypot(*(b - a)) / step))
            pts += [a + (b - a) * (i + 1) / n for i in range(n)]
        q = np.array(pts) + rng.normal(0, .015, (len(pts), 2))
        pen = np.zeros(len(q))
        pen[-1] = 1
        out.append(np.column_stack([q, pen]))
    q = np.concatenate(out)
    q[1:, :2] = np.diff(q[:, :2], axis=0)
    q[0, :2] = 0
    return q[:T]


def pack(n):
    y = rng.integers(0, 10, n)
    x, ln = np.zeros((n, T, 3), np.float32), np.zeros(n, np.int64)
    for i, d in enumerate(y):
        s = write(int(d))
        x[i, :len(s)], ln[i] = s, len(s)
    return x, ln, y


a, b = pack(1100), pack(500)
for side in ("bug", "ok"):
    ln = a[1] // 5 + 1 if side == "bug" else a[1]
    np.savez_compressed(f"{side}/strokes_train.npz", points=a[0], lengths=ln, digit=a[2])
    np.savez_compressed(f"{side}/strokes_test.npz", points=b[0], lengths=b[1], digit=b[2])
