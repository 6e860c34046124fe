from datetime import date, timedelta
from pathlib import Path
import numpy as np

HERE = Path(__file__).resolve().parent

for side in ("bug", "ok"):
    rng = np.random.default_rng(95)
    out = HERE / side
    out.mkdir(exist_ok=True)
    for name, year, shops in (("sales_2022", 2022, 4), ("sales_2023", 2023, 1)):
        rows = ["date,open_hours,litres"]
        for _ in range(shops):
            for k in range(365):
                d = date(year, 1, 1) + timedelta(k)
                hours = rng.integers(6, 13)
                season = np.exp(-((k - 195) / 45) ** 2)
                litres = (8 + 70 * season) * hours / 9 * (1.25 if d.weekday() >= 5 else 1) + rng.normal(0, 3)
                fmt = "%m/%d/%Y" if side == "bug" and year == 2022 else "%d/%m/%Y"
                rows.append(f"{d.strftime(fmt)},{hours},{max(litres, 0):.1f}")
        (out / f"{name}.csv").write_text("\n".join(rows) + "\n")
