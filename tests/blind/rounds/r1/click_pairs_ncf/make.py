import json
import numpy as np

rng = np.random.default_rng(8)
U, I = 300, 150
score = 1.2 * rng.normal(size=(U, 4)) @ rng.normal(size=(4, I)) + rng.gumbel(size=(U, I))
top = np.argsort(-score, 1)[:, :15]
top = rng.permuted(top, axis=1)
users = np.arange(U)
train = np.stack([np.repeat(users, 14), top[:, 1:].ravel()], 1).astype(np.int16)
held = np.stack([users, top[:, 0]], 1).astype(np.int16)
for name, ratio in (("bug", 0), ("ok", 4)):
    np.savez_compressed(f"{name}/clicks.npz", train=train, held_out=held, n_users=U, n_items=I)
    json.dump(dict(seed=1, dim=16, lr=1e-2, epochs=10, batch_size=256, negatives_per_click=ratio), open(f"{name}/config.json", "w"), indent=1)
