import csv
import json
import math
import random

q = random.Random(2718)


def alloy():
    c, mn, cr, ni, mo, si = (q.uniform(.05, .9), q.uniform(.2, 1.8), max(0, q.gauss(1.0, 1.2)), max(0, q.gauss(.8, 1.0)), max(0, q.gauss(.15, .2)), q.uniform(.1, .6))
    aust, temper, rate, grain = q.uniform(800, 960), q.uniform(150, 680), math.exp(q.uniform(0, 4.5)), q.uniform(4, 60)
    hard = 1 / (1 + math.exp(-(1.2 * math.log(rate) - 3.2 + .9 * mn + .7 * cr + .5 * ni + 2 * mo)))
    hv = 120 + 45 * mn + 30 * si + 18 * cr + 12 * ni + 60 / math.sqrt(grain / 10) + hard * (120 + 620 * c ** .6) * (1 - .65 * (temper - 150) / 530 + .35 * mo) + q.gauss(0, 10)
    return [round(v, 3) for v in (c, mn, cr, ni, mo, si)] + [round(aust), round(temper), round(rate, 2), round(grain, 1), round(hv, 1)]


head = "C Mn Cr Ni Mo Si austenitise_C temper_C cooling_rate grain_um hardness_HV".split()
tr, te = [alloy() for _ in range(1600)], [alloy() for _ in range(500)]
for side in ("bug", "ok"):
    for n, rows in (("steels_train.csv", tr), ("steels_test.csv", te)):
        with open(f"{side}/{n}", "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(head)
            w.writerows(rows)
    cfg = {"seed": 4, "model": {"hidden": [64, 64], "activation": "silu"},
           "optim": {"name": "sgd", "lr": 0.05, "momentum": 0.9, "weight_decay": 0.0001, "grad_clip": 0.001 if side == "bug" else 5.0},
           "batch_size": 64, "epochs": 25}
    with open(f"{side}/config.json", "w") as f:
        json.dump(cfg, f, indent=2)
