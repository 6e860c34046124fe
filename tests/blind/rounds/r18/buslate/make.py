import json
import numpy as np

rng = np.random.default_rng(7)
N = 5000
lines = ["M4", "12", "18", "61", "X30", "N2"]
line = rng.integers(len(lines), size=N)
hour, dow = rng.integers(5, 24, N), rng.integers(7, size=N)
stop = rng.integers(1, 31, N)
rain = np.maximum(0, rng.gamma(0.5, 3, N) - 1.5)
prev = rng.gamma(1.5, 60, N) - 30
load = rng.uniform(0, 1.2, N)
peak = (np.exp(-((hour - 8) / 1.3) ** 2) + 1.2 * np.exp(-((hour - 17.5) / 1.6) ** 2)) * (dow < 5)
base = np.array([10, 45, 30, 60, 20, 0])[line]
delay = base + 0.7 * prev + 5.5 * stop * peak * (1 + 0.12 * rain) + 60 * np.maximum(load - 0.8, 0) * stop / 10 + 4 * rain + rng.normal(0, 20, N)
head = "line,hour,weekday,stop_seq,rain_mm,prev_trip_delay_s,load_factor,delay_s"
rows = [f"{lines[line[i]]},{hour[i]},{dow[i]},{stop[i]},{rain[i]:.1f},{prev[i]:.0f},{load[i]:.2f},{delay[i]:.0f}" for i in range(N)]
for side in ("bug", "ok"):
    with open(f"{side}/stops_train.csv", "w") as f:
        f.write("\n".join([head] + rows[:4000]) + "\n")
    with open(f"{side}/stops_test.csv", "w") as f:
        f.write("\n".join([head] + rows[4000:]) + "\n")
    conf = {"model": {"hidden": 64, "layers": 2}, "optim": {"lr": 0.004, "weight_decay": 0.0001, "warmup_steps": 60, "batch_size": 64},
            "epochs": 14, "seed": 3}
    if side == "bug":
        conf["optim"]["warmup_steps"] = 60000
    with open(f"{side}/config.json", "w") as f:
        json.dump(conf, f, indent=2)
