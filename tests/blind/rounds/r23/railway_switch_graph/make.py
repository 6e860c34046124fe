import configparser
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent


def main():
    rng = np.random.default_rng(77)
    n, n_lines = 1400, 14
    line = np.sort(rng.integers(n_lines, size=n))
    km = np.round(rng.uniform(0, 120, n), 2)
    order = np.lexsort((km, line))
    line, km = line[order], km[order]

    # consecutive switches of a line are neighbours, a few connections between lines
    a = [i for i in range(n - 1) if line[i] == line[i + 1]]
    pairs = [(i, i + 1) for i in a] + [(i, i + 2) for i in a if i + 2 < n and line[i] == line[i + 2]]
    pairs += [tuple(p) for p in rng.integers(n, size=(150, 2)) if p[0] != p[1]]
    pairs = np.array(pairs)

    age = rng.gamma(3, 6, n)
    throws = rng.gamma(4, 20, n)
    load = rng.lognormal(2.3, .6, n)
    current = rng.normal(4.2, .5, n) + .02 * age
    heater = rng.random(n) < .4
    gravel = rng.normal(0, 1, n)
    adj = np.zeros((n, n))
    adj[pairs[:, 0], pairs[:, 1]] = adj[pairs[:, 1], pairs[:, 0]] = 1
    near = adj / adj.sum(1, keepdims=True).clip(1)
    own = .04 * age + .004 * throws + .5 * (current - 4.4)
    around = near @ (np.log(load) - 2.3) + .8 * near @ gravel
    second = near @ near @ gravel
    y = 3.2 + .5 * own + 1.1 * around + .9 * second + .3 * heater * around + rng.normal(0, .25, n)

    code = rng.permutation(n)          # inventory number of each switch
    by_code = np.argsort(code)
    row = np.argsort(by_code)          # row of each switch in nodes.csv
    split = np.where(rng.random(n) < .6, "train", np.where(rng.random(n) < .5, "val", "test"))
    head = "code,line,km,age_years,throws_per_day,axle_load,motor_current,heater,ballast_index,throw_time_s,split"
    lines = [head]
    for i in by_code:
        lines.append(f"W{code[i]:05d},L{line[i]:02d},{km[i]:.2f},{age[i]:.1f},{throws[i]:.0f},{load[i]:.2f},"
                     f"{current[i]:.2f},{int(heater[i])},{gravel[i]:.3f},{y[i]:.3f},{split[i]}")
    nodes = "\n".join(lines) + "\n"
    mix = rng.permutation(len(pairs))
    cfg = configparser.ConfigParser()
    cfg["model"] = {"hidden": "32", "dropout": "0.1"}
    cfg["training"] = {"epochs": "220", "lr": "0.005", "weight_decay": "0.001", "seed": "4"}
    for side in ("bug", "ok"):
        folder = HERE / side
        folder.mkdir(exist_ok=True)
        (folder / "nodes.csv").write_text(nodes)
        ends = pairs[mix] if side == "bug" else row[pairs[mix]]
        (folder / "edges.csv").write_text("from,to\n" + "\n".join(f"{p},{q}" for p, q in ends) + "\n")
        with open(folder / "run.ini", "w") as f:
            cfg.write(f)


main()
