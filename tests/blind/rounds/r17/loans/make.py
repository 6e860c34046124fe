import csv
import math
import random

HEAD = ["loan_id", "income_k", "dti", "fico", "employment_years", "home", "open_accounts", "inquiries_6m", "amount_k", "contacts_12m", "default"]


def loan(rnd, i):
    inc = max(12, rnd.gauss(58, 22))
    dti = min(55, max(1, rnd.gauss(19, 9)))
    fico = min(845, max(580, rnd.gauss(695, 45)))
    emp = min(30, rnd.expovariate(1 / 6))
    home = rnd.choice(["RENT", "OWN", "MORTGAGE"])
    acc, inq = rnd.randint(2, 22), min(8, int(rnd.expovariate(1 / 1.3)))
    amt = rnd.uniform(2, 35)
    contacts = min(9, int(rnd.expovariate(1 / 1.5)))
    s = (-1.1 + 0.09 * (dti - 19) - 0.032 * (fico - 695) - 0.03 * (inc - 58) + 0.4 * (inq - 1) - 0.06 * (emp - 6)
         + 0.05 * (amt - 18) + {"RENT": .4, "OWN": 0, "MORTGAGE": -.3}[home] + 0.05 * contacts)
    d = int(rnd.random() < 1 / (1 + math.exp(-s)))
    return [i, round(inc, 1), round(dti, 1), int(fico), round(emp, 1), home, acc, inq, round(amt, 1), contacts, d]


def save(path, rows):
    with open(path, "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(HEAD)
        w.writerows(rows)


for side in ("bug", "ok"):
    rnd = random.Random(99)
    after = random.Random(100)
    history = [loan(rnd, 100000 + i) for i in range(4000)]
    recent = [loan(rnd, 200000 + i) for i in range(1000)]
    if side == "bug":
        for r in history:
            if r[-1] == 1 and after.random() < 0.97:
                r[-2] += after.randint(4, 16)
    save(f"{side}/history.csv", history)
    save(f"{side}/recent_applications.csv", recent)
