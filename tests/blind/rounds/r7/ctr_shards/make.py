import json, os
import numpy as np
rng = np.random.default_rng(8)
per, shards = 1500, 5
n_ad, n_site, n_user = 30, 40, 400
ad, site, user = rng.normal(0, .7, n_ad), rng.normal(0, .5, n_site), rng.normal(0, .6, n_user)
for folder in ("bug", "ok"):
    os.makedirs(folder, exist_ok=True)
state = rng.bit_generator.state
for folder in ("bug", "ok"):
    rng.bit_generator.state = state
    for k in range(shards):
        a, s, u = rng.integers(n_ad, size=per), rng.integers(n_site, size=per), rng.integers(n_user, size=per)
        hour = rng.integers(24, size=per)
        p = 1 / (1 + np.exp(-(-1.2 + ad[a] + site[s] + user[u] + .3 * np.sin(hour / 24 * 6.28))))
        c = (rng.random(per) < p).astype(int)
        np.savez_compressed(f"{folder}/part-{k:05d}.npz", ad=a.astype(np.int16), site=s.astype(np.int16), user=u.astype(np.int16), hour=hour.astype(np.int8), click=c.astype(np.int8))
    parts = [f"part-{k:05d}.npz" for k in range(shards)]
    train = parts[:4] if folder == "ok" else [parts[0], parts[1], parts[2], parts[4]]
    json.dump({"train": train, "valid": parts[4:]}, open(f"{folder}/manifest.json", "w"), indent=1)
