import csv, math, os, random
here = os.path.dirname(os.path.abspath(__file__))


def rows(site, n, rnd, degrees):
    best = {"A": 0.3, "B": 0.3, "C": 0.3}[site]
    for _ in range(n):
        d = rnd.uniform(0, 2 * math.pi)
        v = rnd.uniform(3, 14)
        power = 0.4 * v * (1 + 0.8 * math.cos(d - best)) + rnd.gauss(0, 0.15)
        yield [site, f"{math.degrees(d) if degrees else d:.4f}", f"{v:.2f}", f"{power:.3f}"]


for side in ("bug", "ok"):
    rnd = random.Random(2)
    os.makedirs(os.path.join(here, side), exist_ok=True)
    for site in "ABC":
        with open(os.path.join(here, side, f"site_{site}.csv"), "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(["site", "wind_dir", "wind_speed", "power"])
            w.writerows(rows(site, 400, rnd, side == "bug" and site == "B"))
    with open(os.path.join(here, side, "check.csv"), "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(["site", "wind_dir", "wind_speed", "power"])
        w.writerows(rows("C", 300, rnd, False))
