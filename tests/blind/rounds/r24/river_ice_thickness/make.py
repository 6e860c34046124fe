"""Writes bug/ and ok/: weekly river ice surveys with degree hours of frost since freeze-up."""
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
SITES, WINTERS, WEEKS = 26, 6, 20
HEADER = "site,winter,week,air_temp_c,snow_cm,velocity_ms,width_m,frost_deg_h,thickness_cm"


def main():
    rng = np.random.default_rng(5150)
    rows = []
    for s in range(SITES):
        cold = rng.uniform(8, 34)
        velocity, width = rng.uniform(0.2, 1.4), rng.uniform(40, 900)
        for w in range(WINTERS):
            severity, snowy = rng.normal(1, 0.18), rng.gamma(4, 0.35)
            frost, snow, thick = 0.0, 0.0, 4.0
            for k in range(WEEKS):
                temp = -cold * severity * np.sin(np.pi * (k + 3) / (WEEKS + 5)) + rng.normal(0, 3)
                snow = max(0.0, 0.9 * snow + rng.gamma(1.2, 2.2) * snowy)
                gain = max(-temp, 0) * 24 * 7
                frost += gain
                conduct = 1 / (1 + 0.03 * snow)
                thick += gain / 24 * 0.5 * conduct * 11 / (thick + 9) - 0.35 * velocity
                thick = max(thick, 2.0)
                rows.append([s, 2016 + w, k, round(temp, 1), round(snow, 1), round(velocity, 2), round(width),
                             int(round(frost)), round(thick * np.exp(rng.normal(0, 0.05)), 1)])
    for side in ("bug", "ok"):
        folder = HERE / side
        folder.mkdir(exist_ok=True)
        lines = [HEADER]
        for r in rows:
            frost = int(np.array(r[7]).astype(np.uint16)) if side == "bug" else r[7]
            lines.append(",".join(str(v) for v in [f"R{r[0]:02d}", *r[1:7], frost, r[8]]))
        (folder / "surveys.csv").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
