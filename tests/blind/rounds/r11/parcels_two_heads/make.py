import json
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent


def main():
    r = np.random.default_rng(31)
    n = 7000
    x = r.normal(0, 1, (n, 16))
    kg = np.exp(0.5 * x[:, 0] + 0.3 * x[:, 1] * x[:, 2] + 0.3) + r.normal(0, 0.15, n)
    kg = kg.clip(0.05, 12)
    score = np.stack([x[:, 3] + x[:, 4], x[:, 5] * x[:, 6] * 1.3, -x[:, 3] + x[:, 7], 1.2 * np.abs(x[:, 8]) - 0.4, x[:, 9] - x[:, 4]], 1)
    service = (score + r.gumbel(0, 0.15, score.shape)).argmax(1)
    settings = {"seed": 19, "batch": 64, "width": 64, "lr": 0.05, "epochs": 20, "clip": 1.0, "w_service": 1.0, "w_weight": 1.0}
    for name, unit in (("ok", 1.0), ("bug", 1000.0)):
        d = HERE / name
        d.mkdir(exist_ok=True)
        (d / "settings.json").write_text(json.dumps(settings, indent=1))
        np.savez(d / "parcels.npz", features=x.astype(np.float32), service=service, weight=kg * unit)


if __name__ == "__main__":
    main()
