"""writes samples.csv (river samples 2015-2022) and columns.json for both sides"""
import csv, json
import numpy as np

r = np.random.default_rng(41)
n = 3600
month = r.integers(1, 13, n)
area = r.lognormal(5, 0.8, n)
farm = r.beta(2, 2, n)
flow = np.exp(0.5 * np.cos((month - 2) / 6 * np.pi) + r.normal(0, 0.5, n)) * area / 80
temp = 10.5 - 8 * np.cos((month - 1.3) / 6 * np.pi) + r.normal(0, 1.5, n)
cond = 250 + 380 * farm + r.normal(0, 40, n)
oxy = 14 - 0.33 * temp + r.normal(0, 0.8, n) - 2.2 * r.beta(1, 4, n) * farm * 3
ph = 7.3 + 0.05 * (oxy - 10) + r.normal(0, 0.15, n)
nitrate = 1 + 9 * farm * (0.55 + 0.45 * np.cos((month - 2) / 6 * np.pi)) + 0.5 * (14 - 0.33 * temp - oxy) + 0.004 * (cond - 440) + r.normal(0, 0.35, n)
gap = {k: r.random(n) < p for k, p in [("conductivity_us_cm", 0.08), ("oxygen_mg_l", 0.1), ("water_temp_c", 0.05), ("ph", 0.12)]}
test_year = r.random(n) < 0.25
for side in ("bug", "ok"):
    with open(f"{side}/samples.csv", "w", newline="") as f:
        w = csv.writer(f)
        cols = ["conductivity_us_cm", "oxygen_mg_l", "water_temp_c", "ph", "flow_m3_s", "farmland_share"]
        w.writerow(["sample", "year", "month"] + cols + ["nitrate_mg_l"])
        for i in range(n):
            vals = []
            for k, v in zip(cols, (cond, oxy, temp, ph, flow, farm)):
                if k in gap and gap[k][i]:
                    vals.append("-9999" if side == "bug" and not test_year[i] else "")
                else:
                    vals.append(f"{v[i]:.3f}")
            w.writerow([f"S{i:05d}", 2022 if test_year[i] else 2015 + i % 7, month[i]] + vals + [f"{max(nitrate[i], 0.1):.2f}"])
    json.dump({"target": "nitrate_mg_l", "numeric": cols, "test_year": 2022, "epochs": 30, "batch": 64, "lr": 0.002}, open(f"{side}/columns.json", "w"))
