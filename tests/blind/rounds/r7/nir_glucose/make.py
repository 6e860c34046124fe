import numpy as np

axis = np.linspace(4000, 8000, 80)
COMP = {"glucose": [(4400, 90, 1.0), (4750, 120, 0.6), (5900, 150, 0.4)], "water": [(5180, 260, 2.0), (6900, 400, 1.5)],
        "urea": [(4580, 110, 0.9), (6600, 160, 0.3)], "lactate": [(4330, 100, 0.7), (5700, 140, 0.5)],
        "protein": [(4860, 130, 0.9), (6300, 200, 0.4)]}


def draw(n, seed):
    r = np.random.default_rng(seed)
    g = r.uniform(2, 25, n)
    conc = {"glucose": g / 12, "water": 1 + 0.1 * r.normal(size=n), "urea": r.uniform(0.2, 1.5, n),
            "lactate": r.uniform(0.2, 1.5, n), "protein": r.uniform(0.3, 1.4, n)}
    a = np.zeros((n, len(axis)))
    for k, bands in COMP.items():
        a += conc[k][:, None] * sum(h * np.exp(-0.5 * ((axis - c) / w) ** 2) for c, w, h in bands)
    a += 0.1 * r.normal(size=(n, 1)) + 0.05 * r.normal(size=a.shape)
    return a.astype(np.float16), g.astype(np.float32)


for name, n, seed in [("calibration", 640, 1), ("validation", 200, 2)]:
    a, g = draw(n, seed)
    np.savez_compressed(f"ok/{name}.npz", wavenumber=axis.astype(np.float32), absorbance=a, glucose_mM=g)
    s = slice(None, None, -1) if name == "validation" else slice(None)
    np.savez_compressed(f"bug/{name}.npz", wavenumber=axis[s].astype(np.float32), absorbance=a[:, s], glucose_mM=g)
