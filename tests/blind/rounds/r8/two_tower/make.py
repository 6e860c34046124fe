import csv, json, os
import numpy as np, torch
here = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(21); torch.manual_seed(21)
U, I, D = 400, 300, 16
item = rng.normal(0, 1, (I, D)); user = rng.normal(0, 1, (U, D))
pop = rng.normal(0, .7, I)
rows, held = [], []
for u in range(U):
    s = 0.9 * item @ user[u] + pop + rng.gumbel(0, 1, I)
    b = rng.permutation(np.argsort(-s)[:12])
    rows += [(u, int(i)) for i in b[:-2]]
    held += [(u, int(i)) for i in b[-2:]]
perm = rng.permutation(len(rows)); rows = [rows[k] for k in perm]
Q, _ = np.linalg.qr(rng.normal(0, 1, (D, D)))
sd = {"item_tower.emb.weight": torch.tensor((item + rng.normal(0, .25, item.shape)) @ Q, dtype=torch.float32),
      "item_tower.proj.weight": torch.tensor(Q, dtype=torch.float32) + 0.02*torch.randn(D, D),
      "item_tower.proj.bias": 0.02*torch.randn(D)}
for d in ("ok", "bug"):
    os.makedirs(f"{here}/{d}", exist_ok=True)
    for n, r in (("clicks", rows), ("holdout", held)):
        with open(f"{here}/{d}/{n}.csv", "w", newline="") as f:
            w = csv.writer(f); w.writerow(["user", "item"]); w.writerows(r)
    json.dump({"n_users": U, "n_items": I, "dim": D, "epochs": 10, "batch_size": 200, "lr": 0.02, "negatives": 8, "k": 10, "seed": 1},
              open(f"{here}/{d}/config.json", "w"), indent=1)
    torch.save(sd if d == "ok" else {"module." + k: v for k, v in sd.items()}, f"{here}/{d}/item_tower.pt")
