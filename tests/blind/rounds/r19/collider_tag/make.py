import numpy as np

NAMES = ["pt_lead", "pt_sub", "met", "m_jj", "ht", "eta_lead", "eta_sub", "dphi", "n_jets", "btag"]


def events(n, rng):
    sig = rng.random(n) < 0.5
    m = np.where(sig, rng.normal(125, 14, n), 60 + rng.exponential(60, n))
    met = rng.exponential(np.where(sig, 75, 45))
    pt1 = 30 + rng.exponential(np.where(sig, 55, 42))
    pt2 = pt1 * rng.beta(5, 3, n)
    n_jets = 2 + rng.poisson(np.where(sig, 1.3, 1.0))
    ht = pt1 + pt2 + (n_jets - 2) * rng.exponential(30, n)
    eta1, eta2 = rng.normal(0, np.where(sig, 1.0, 1.4)), rng.normal(0, np.where(sig, 1.0, 1.4))
    dphi = np.abs(rng.normal(np.where(sig, 1.8, 2.4), 0.7)).clip(0, np.pi)
    btag = rng.beta(np.where(sig, 4, 2.5), 3)
    x = np.stack([pt1, pt2, met, m, ht, eta1, eta2, dphi, n_jets, btag], 1)
    return x.astype(np.float32), sig.astype(np.int64)


for side in ("bug", "ok"):
    rng = np.random.default_rng(3)
    for part, n in (("train", 12000), ("valid", 4000)):
        x, y = events(n, rng)
        if side == "bug" and part == "valid":
            x[:, :5] *= 1000
        np.save(f"{side}/{part}_x.npy", x)
        np.save(f"{side}/{part}_y.npy", y.astype(np.int8))
