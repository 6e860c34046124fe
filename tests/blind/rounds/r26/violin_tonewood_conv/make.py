import csv
import os

import numpy as np

rng = np.random.default_rng(12)
N, BINS = 1100, 96
freq = np.linspace(80, 900, BINS)

rows, taps = [], []
for i in range(N):
    density = rng.normal(415, 35)
    moisture = rng.normal(8.0, 1.0)
    length = rng.normal(372, 6)
    modulus = 11.2 + 0.016 * (density - 415) - 0.25 * (moisture - 8) + rng.normal(0, 1.7)
    f1 = 300 * np.sqrt(modulus / 11.2 * 415 / density) * (372 / length) ** 2
    q = rng.uniform(40, 90)
    spec = np.zeros(BINS)
    for mult, amp in ((1.0, 1.0), (1.83, 0.6), (2.6, 0.35)):
        spec += amp * rng.uniform(0.7, 1.3) / (1 + (q / 10 * (freq / (f1 * mult) - 1) * 6) ** 2)
    spec += rng.gamma(2, 0.02, BINS)
    rows.append({
        "blank_id": f"B{i + 1}",
        "density_kg_m3": round(density, 1),
        "moisture_pct": round(moisture, 2),
        "length_mm": round(length, 1),
        "modulus_gpa": round(modulus, 3),
    })
    taps.append(20 * np.log10(spec + 1e-3))

taps = np.array(taps, dtype=np.float32)
ordered = {
    "ok": sorted(rows, key=lambda r: int(r["blank_id"][1:])),
    "bug": sorted(rows, key=lambda r: r["blank_id"]),
}
for side, table in ordered.items():
    os.makedirs(side, exist_ok=True)
    np.save(f"{side}/taps_db.npy", taps)
    with open(f"{side}/blanks.csv", "w", newline="") as f:
        w = csv.DictWriter(f, fieldnames=list(table[0]))
        w.writeheader()
        w.writerows(table)
