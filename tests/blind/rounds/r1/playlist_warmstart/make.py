import numpy as np

rng = np.random.default_rng(30)
P, T, D = 250, 160, 12
score = 1.3 * rng.normal(size=(P, 4)) @ rng.normal(size=(4, T)) + rng.gumbel(size=(P, T))
top = rng.permuted(np.argsort(-score, 1)[:, :16], axis=1)
pairs = np.stack([np.repeat(np.arange(P), 15), top[:, 1:].ravel()], 1).astype(np.int16)
init = {"playlist": rng.normal(0, 0.1, (P, D)).astype(np.float32), "track": rng.normal(0, 0.1, (T, D)).astype(np.float32)}
for name, factor in (("bug", 0), ("ok", 1)):
    np.savez_compressed(f"{name}/playlists.npz", pairs=pairs, held=top[:, 0].astype(np.int16))
    np.savez_compressed(f"{name}/factors.npz", **{k: v * np.float32(factor) for k, v in init.items()})
