"""Writes bug/ and ok/: scored respiratory events of overnight recordings (nasal pressure, thorax belt; 8 Hz, 30 s)."""
import csv
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
FS, SECONDS, EVENTS, PATIENTS = 8, 30, 1500, 50
CONFIG = """[data]
signals = events.npy
table = events.csv
recorded_hz = 8
target_hz = {hz}
val_patients = 12

[model]
channels = 24
kernel = 7
dropout = 0.2

[train]
seed = 5
epochs = 15
batch = 48
lr = 0.002
weight_decay = 0.01
"""


def main():
    rng = np.random.default_rng(404)
    t = np.arange(FS * SECONDS) / FS
    patient = rng.integers(0, PATIENTS, EVENTS)
    heart = rng.uniform(1.08, 1.35, PATIENTS)
    breath = rng.uniform(0.2, 0.3, PATIENTS)
    snore = rng.uniform(2.2, 2.7, PATIENTS)
    mixed = rng.random(PATIENTS) * 0.6 + 0.2
    kind = (rng.random(EVENTS) < mixed[patient]).astype(int)
    sig = np.zeros((EVENTS, 2, len(t)))
    for i in range(EVENTS):
        p = patient[i]
        drift = np.cumsum(rng.normal(0, 0.05, (2, len(t))), 1)
        amp = rng.uniform(0.3, 1.2)
        start, stop = rng.uniform(4, 8), rng.uniform(20, 26)
        inside = 1 / (1 + np.exp(-2 * (t - start))) / (1 + np.exp(2 * (t - stop)))
        breathing = amp * np.sin(2 * np.pi * breath[p] * t + rng.uniform(0, 6.3))
        sig[i, 0] = breathing * (1 - 0.85 * inside)
        sig[i, 1] = breathing * (1 - 0.45 * inside)
        cardiac = np.sin(2 * np.pi * (heart[p] + rng.normal(0, 0.02)) * t + rng.uniform(0, 6.3))
        flutter = np.sin(2 * np.pi * (snore[p] + rng.normal(0, 0.05)) * t + rng.uniform(0, 6.3))
        if kind[i] == 1:
            sig[i, 0] += rng.uniform(0.1, 0.45) * cardiac * inside
            sig[i, 1] += rng.uniform(0.1, 0.3) * cardiac * inside
        else:
            sig[i, 0] += rng.uniform(0.1, 0.45) * flutter * inside
            sig[i, 1] += rng.uniform(0.0, 0.15) * cardiac * inside
        sig[i] += drift + rng.normal(0, 0.16, (2, len(t)))
    flip = rng.random(EVENTS) < 0.03
    label = np.where(flip, 1 - kind, kind)
    for side, hz in (("bug", 1), ("ok", 8)):
        folder = HERE / side
        folder.mkdir(exist_ok=True)
        np.save(folder / "events.npy", sig.astype(np.float16))
        with open(folder / "events.csv", "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(["event", "patient", "type"])
            for i in range(EVENTS):
                w.writerow([i, f"P{patient[i]:03d}", "central" if label[i] else "obstructive"])
        (folder / "config.ini").write_text(CONFIG.format(hz=hz))


if __name__ == "__main__":
    main()
