import json
import numpy as np

for name in ("bug", "ok"):
    rng = np.random.default_rng(55)
    for day, (part, n) in enumerate((("monday", 2500), ("tuesday", 900))):
        t = np.sort(rng.uniform(0, 28000, n))
        load, temp = rng.gamma(4, 0.25, n), rng.normal(0, 1, n)
        angle = 2 * np.pi * t / 40
        current = 8 + 3 * np.sin(angle) * load + 1.5 * np.cos(2 * angle) + 1.5 * load + 0.2 * rng.normal(size=n)
        start = 1717400000 + 86400 * day
        stamp = t + start if name == "bug" else t
        with open(f"{name}/{part}.csv", "w") as f:
            f.write("time_s,load,temp,current\n")
            f.writelines(f"{stamp[i]:.1f},{load[i]:.2f},{temp[i]:.2f},{current[i]:.2f}\n" for i in range(n))
    json.dump(dict(seed=5, lr=3e-3, epochs=20, batch_size=64), open(f"{name}/config.json", "w"))
