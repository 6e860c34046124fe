import os

import numpy as np
import pandas as pd
import yaml

FEATURES = ["rain_mm", "temp_mean_c", "soil_clay_pct", "nitrogen_kg_ha", "sow_day", "soil_ph"]


def county(n, seed):
    rng = np.random.default_rng(seed)
    rain = rng.normal(430 + rng.normal() * 50, 90, n).clip(120)
    temp = rng.normal(14.5 + rng.normal() * 0.8, 1.2, n)
    clay = rng.uniform(8, 45, n)
    nit = rng.uniform(40, 220, n)
    sow = rng.normal(285, 12, n)
    ph = rng.normal(6.6, 0.5, n)
    y = (6.2 + 1.5 * np.tanh((rain - 380) / 120) - 0.35 * np.abs(temp - 14) + 0.016 * nit
         - 0.00004 * nit ** 2 + 0.02 * (clay - 25) - 0.0012 * (sow - 283) ** 2
         - 0.5 * (ph - 6.7) ** 2 + rng.normal(size=n) * 0.35).clip(0.8)
    return pd.DataFrame({"field_id": np.arange(n) + seed * 1000, "rain_mm": rain.round(1),
                         "temp_mean_c": temp.round(2), "soil_clay_pct": clay.round(1),
                         "nitrogen_kg_ha": nit.round(0), "sow_day": sow.round(0), "soil_ph": ph.round(2),
                         "yield": y.round(3)})


NAMES = ["adair", "boone", "carter", "dodge", "ellis", "floyd", "grant", "harlan"]


def main():
    for side in ("bug", "ok"):
        os.makedirs(f"{side}/counties", exist_ok=True)
        for i, name in enumerate(NAMES):
            t = county(450, 10 + i)
            if side == "bug" and name in ("carter", "floyd"):
                t["yield"] = (t["yield"] * 14.87).round(1)  # bushels per acre
            t.to_csv(f"{side}/counties/{name}.csv", index=False)
        pd.concat([county(300, 40 + i) for i in range(3)]).to_csv(f"{side}/valid.csv", index=False)
        with open(f"{side}/config.yaml", "w") as f:
            yaml.safe_dump({"features": FEATURES, "target": "yield", "train_glob": "counties/*.csv",
                            "valid_file": "valid.csv", "hidden": 48, "lr": 0.003, "weight_decay": 0.001,
                            "batch_size": 64, "epochs": 24, "seed": 3}, f, sort_keys=False)


if __name__ == "__main__":
    main()
