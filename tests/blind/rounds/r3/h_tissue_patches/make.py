import numpy as np

rng = np.random.default_rng(1)
proto = rng.standard_normal((3, 10, 10))


def make(n):
    y = rng.integers(0, 3, n)
    x = 128 + 9 * proto[y] + 40 * rng.standard_normal((n, 10, 10))
    return x.clip(0, 255).astype(np.uint8), y.astype(np.uint8)


tx, ty = make(600)
vx, vy = make(200)
hx, hy = make(300)
pick = rng.permutation(600)[:160]
bx, by = vx.copy(), vy.copy()
bx[:160], by[:160] = tx[pick], ty[pick]
for d, (a, b) in {"ok": (vx, vy), "bug": (bx, by)}.items():
    np.savez_compressed(f"{d}/train.npz", patch=tx, label=ty)
    np.savez_compressed(f"{d}/val.npz", patch=a, label=b)
    np.savez_compressed(f"{d}/other_hospital.npz", patch=hx, label=hy)
