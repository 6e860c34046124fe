import csv
import math
import random

rnd = random.Random(314)
head = ["loan_id", "age", "income", "loan_amount", "term_months", "utilisation_pct", "months_since_late", "open_lines", "default"]


def person(i):
    age = rnd.randint(21, 70)
    inc = math.exp(rnd.gauss(10.3, .45))
    amt = math.exp(rnd.gauss(9.0, .6))
    term = rnd.choice([12, 24, 36, 48, 60])
    util = 100 * rnd.betavariate(1.6, 2.0)
    late = min(int(rnd.expovariate(1 / 22.0)), 95)
    lines = rnd.randint(1, 12)
    z = -1.9 + 5.2 * (util / 100 - .42) + .9 * math.log(amt / inc / .27) - .022 * late - .012 * (age - 42) + .06 * (lines - 6) + .3
    d = int(rnd.random() < 1 / (1 + math.exp(-z)))
    nolimit = rnd.random() < .04
    return [100000 + i, age, round(inc), round(amt), term, None if nolimit else round(util, 1), late, lines, d]


people = [person(i) for i in range(7000)]
for side in ("bug", "ok"):
    gap = "99999" if side == "bug" else ""
    for name, part in (("applications_2021.csv", people[:2500]), ("applications_2022.csv", people[2500:5000]), ("applications_2023.csv", people[5000:])):
        with open(side + "/" + name, "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(head)
            for p in part:
                w.writerow([gap if v is None else v for v in p])
