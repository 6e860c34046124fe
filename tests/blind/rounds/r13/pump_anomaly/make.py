"""Writes bug/ and ok/: cycles.npz, log.jsonl, normal_ids.txt (for fitting), eval.npz."""
import json, os
import numpy as np
HERE = os.path.dirname(os.path.abspath(__file__))


def cycles(n, frac, seed):
    rng = np.random.default_rng(seed)
    t = np.linspace(0, 1, 40)
    fault = rng.random(n) < frac
    x = np.zeros((n, 40), np.float32)
    for i in range(n):
        a, f, ph = rng.uniform(0.8, 1.2), rng.uniform(1.8, 2.2), rng.uniform(0, 6.28)
        x[i] = a * np.sin(2 * np.pi * f * t + ph) + 0.1 * rng.normal(0, 1, 40)
        if fault[i]:
            x[i] += 0.55 * np.sin(2 * np.pi * rng.uniform(6, 6.5) * t + rng.uniform(0, 6.28))
    return x, fault


x, fault = cycles(2500, 0.2, 1)
xe, fe = cycles(800, 0.3, 2)
rng = np.random.default_rng(3)
status = [("fault" if rng.random() < 0.75 else "FAULT") if f else "run" for f in fault]
for name in ("bug", "ok"):
    d = os.path.join(HERE, name)
    os.makedirs(d, exist_ok=True)
    np.savez(os.path.join(d, "cycles.npz"), x=x)
    np.savez(os.path.join(d, "eval.npz"), x=xe, fault=fe)
    open(os.path.join(d, "log.jsonl"), "w").write("".join(json.dumps({"id": i, "status": s}) + "\n" for i, s in enumerate(status)))
    norm = (lambda s: s) if name == "bug" else str.upper
    ids = [i for i, s in enumerate(status) if norm(s) != "FAULT"]
    open(os.path.join(d, "normal_ids.txt"), "w").write("\n".join(map(str, ids[:1900])) + "\n")
