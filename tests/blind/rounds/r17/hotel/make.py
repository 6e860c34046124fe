import csv
import math
import random

CITIES = {"lisbon": 95.0, "vienna": 120.0, "prague": 85.0, "oslo": 150.0}
COLS = ["city", "stars", "distance_to_centre", "room_sqm", "review_score", "weekend", "breakfast", "days_ahead", "price_eur"]


def row(city, rnd):
    stars = rnd.choices([2, 3, 4, 5], [1, 4, 4, 1])[0]
    dist = min(12.0, rnd.expovariate(1 / 3.0) + 0.1)
    sqm = rnd.gauss(14 + 4 * stars, 3)
    rev = min(9.8, rnd.gauss(6.2 + 0.5 * stars, 0.6))
    wk, br, days = rnd.random() < 0.3, rnd.random() < 0.5, rnd.randint(0, 90)
    lp = (math.log(CITIES[city]) + 0.22 * (stars - 3) + 0.75 * math.exp(-dist / 1.6) + 0.012 * (sqm - 26)
          + 0.08 * (rev - 7.7) + 0.1 * wk + 0.07 * br - 0.002 * (days - 45) + rnd.gauss(0, 0.07))
    return [city, stars, round(dist, 2), round(sqm, 1), round(rev, 1), int(wk), int(br), days, round(math.exp(lp), 2)]


def write(path, rows):
    with open(path, "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(COLS)
        w.writerows(rows)


for side in ("bug", "ok"):
    rnd = random.Random(5)
    test = []
    for city in CITIES:
        rows = [row(city, rnd) for _ in range(900)]
        test += rows[700:]
        rows = rows[:700]
        if side == "bug" and city == "vienna":
            rows = [[int(round(v * 1000)) if i == 2 else v for i, v in enumerate(r)] for r in rows]
        write(f"{side}/{city}.csv", rows)
    rnd.shuffle(test)
    write(f"{side}/heldout.csv", test)
