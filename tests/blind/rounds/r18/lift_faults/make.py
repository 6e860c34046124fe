import csv, json
import numpy as np

r = np.random.default_rng(15)
N_LIFTS, WEEKS = 200, 20
rows = []
for e in range(N_LIFTS):
    floors, built, load = int(r.integers(4, 31)), int(r.integers(1972, 2021)), float(r.choice([450, 630, 800, 1000, 1250]))
    door0, vib0, trips0 = r.normal(3.2, 0.1), r.lognormal(-0.4, 0.1), r.lognormal(6.5, 0.5)
    care = r.normal(0, 2.4)
    wear = r.normal(0, 1)
    for w in range(WEEKS):
        wear = 0.85 * wear + 0.53 * r.normal()
        door = door0 + 0.10 * wear + 0.05 * r.normal()
        relevel = r.poisson(np.exp(0.7 + 0.45 * wear))
        vib = vib0 * np.exp(0.12 * wear + 0.05 * r.normal())
        logit = -0.6 + 2.0 * wear + care
        fault = int(r.random() < 1 / (1 + np.exp(-logit)))
        rows.append([f"E{e:03d}", w, floors, built, load, f"{door:.3f}", relevel, f"{vib:.4f}", f"{trips0 * np.exp(0.1 * r.normal()):.0f}", fault])
held = {f"E{e:03d}" for e in range(150, N_LIFTS)}
seen = [x for x in rows if x[0] not in held]
lifts = sorted({x[0] for x in seen})
fold_of = {l: i for l, i in zip(lifts, r.permutation(len(lifts)) % 4)}
rand = r.permutation(len(seen)) % 4
head = ["lift", "week", "floors", "built", "load_kg", "door_close_s", "relevel_count", "vibration_rms", "trips", "fault_next_week"]
for side in ("bug", "ok"):
    for name, part in (("telemetry.csv", seen), ("new_contract.csv", [x for x in rows if x[0] in held])):
        with open(f"{side}/{name}", "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(head)
            w.writerows(part)
    folds = {f"{x[0]}/{x[1]}": int(rand[i] if side == "bug" else fold_of[x[0]]) for i, x in enumerate(seen)}
    json.dump(folds, open(f"{side}/folds.json", "w"))
    json.dump({"valid_fold": 0, "max_epochs": 40, "patience": 8, "lr": 0.002, "hidden": 96}, open(f"{side}/run.json", "w"))
