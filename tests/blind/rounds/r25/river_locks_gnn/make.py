import csv
import json
from pathlib import Path

import numpy as np

N_POUNDS, N_SNAPS = 30, 1600


def canal(rng):
    edges = [(i, i + 1) for i in range(19)]
    edges += [(5, 20)] + [(i, i + 1) for i in range(20, 24)]
    edges += [(12, 25)] + [(i, i + 1) for i in range(25, 29)]
    width = rng.uniform(4.0, 12.0, N_POUNDS)
    return edges, width


def snapshots(rng, edges, width):
    level = rng.normal(0, 12.0, (N_SNAPS, N_POUNDS))
    inflow = rng.gamma(2.0, 1.2, (N_SNAPS, N_POUNDS)) * (rng.random(N_POUNDS) < 0.4)
    lockages = rng.poisson(3.0, (N_SNAPS, N_POUNDS)).astype(float)
    nxt = level + 9.0 * inflow / width * 2
    for a, b in edges:
        head = level[:, a] - level[:, b]
        spill = np.maximum(head - 6.0, 0) * 0.28
        through = 0.5 * (lockages[:, a] + lockages[:, b]) * 1.6
        nxt[:, a] -= (spill + through) * 6 / width[a]
        nxt[:, b] += (spill + through) * 6 / width[b]
    change = nxt - level + rng.normal(0, 0.5, level.shape)
    return level, inflow, lockages, change


def dump(folder, edges, width, data, run):
    folder = Path(folder)
    folder.mkdir(exist_ok=True)
    with open(folder / "reaches.csv", "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(["upper_pound", "lower_pound"])
        w.writerows(edges)
    np.savetxt(folder / "width_m.txt", width, fmt="%.2f")
    level, inflow, lockages, change = data
    np.savez_compressed(folder / "snapshots.npz", level_cm=level.astype("f4"), inflow_m3s=inflow.astype("f4"),
                        lockages=lockages.astype("f4"), change_cm=change.astype("f4"))
    (folder / "run.json").write_text(json.dumps(run, indent=1))


if __name__ == "__main__":
    rng = np.random.default_rng(14)
    edges, width = canal(rng)
    data = snapshots(rng, edges, width)
    base = {"seed": 2, "width": 32, "rounds": 2, "epochs": 20, "micro_batch": 32, "accumulate": 1,
            "lr": 0.003, "train_fraction": 0.8}
    dump("ok", edges, width, data, base)
    # settings of the big national network: one snapshot a time on the card, 320 of them to a step
    dump("bug", edges, width, data, dict(base, accumulate=320))
