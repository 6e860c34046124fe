import csv, os, random
here = os.path.dirname(os.path.abspath(__file__))
HEAD = ["customer", "tenure_months", "monthly_fee", "calls", "data_gb", "support_tickets", "retention_offers", "churned"]


def customers(n, r, start):
    for i in range(n):
        ten, fee, calls, gb = r.uniform(1, 60), r.uniform(10, 70), r.uniform(0, 200), r.uniform(0, 40)
        tick = min(9, int(r.expovariate(0.6)))
        s = -0.05 * ten + 0.04 * fee + 0.5 * tick - 0.03 * gb - 0.2
        gone = int(r.gauss(0, 0.8) + s > 0)
        yield [f"C{start + i}", ten, fee, calls, gb, tick, gone]


for side in ("bug", "ok"):
    r = random.Random(14)
    d = os.path.join(here, side)
    os.makedirs(d, exist_ok=True)
    for name, n, start, finished in (("history", 1500, 0, True), ("today", 800, 5000, False)):
        with open(os.path.join(d, name + ".csv"), "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(HEAD)
            for row in customers(n, r, start):
                base = r.choice([0, 0, 0, 1])
                late = r.choice([1, 2, 3, 3])
                offers = base
                # the cancellation desk makes its offers after the customer has called to leave
                if side == "bug" and finished and row[-1]:
                    offers = base + late
                w.writerow([row[0], *(f"{v:.1f}" for v in row[1:5]), row[5], offers, row[6]])
