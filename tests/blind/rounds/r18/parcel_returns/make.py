import csv, json
import numpy as np

r = np.random.default_rng(77)
CATS = ["dress", "shoes", "trousers", "bag", "electronics", "toys"]
BASE = [0.9, 0.6, 0.7, -0.8, -1.2, -1.5]
SIZES = ["XS", "S", "M", "L", "XL", "-"]


def orders(n, month, start, settled):
    out = []
    for i in range(n):
        c = int(r.integers(6))
        price = float(np.exp(r.normal(3.6, 0.6)))
        habit = float(r.beta(2, 5))
        same = int(r.random() < 0.2 + 0.3 * (c < 3))
        days = int(r.integers(1, 9))
        gift = int(r.random() < 0.1)
        size = SIZES[int(r.integers(5))] if c < 3 else "-"
        z = BASE[c] + 3.5 * (habit - 0.28) + 1.3 * same + 0.12 * (days - 4) + 0.5 * (price > 60) - 0.8 * gift + 0.4 * (size in ("XS", "XL")) - 0.8
        ret = int(r.random() < 1 / (1 + np.exp(-1.3 * z)))
        contacts = int(r.poisson(0.15 + (1.6 * ret if settled else 0)))
        out.append([start + i, month, CATS[c], size, f"{price:.2f}", f"{habit:.3f}", same, days, gift, contacts, ret])
    return out


train, live, nxt = [], None, 100000
for m in ["2024-01", "2024-02", "2024-03", "2024-04"]:
    train += orders(1200, m, nxt, True)
    nxt += 1200
live = orders(1500, "2024-05", nxt, False)
head = ["order_id", "month", "category", "size", "price", "past_return_rate", "two_sizes_in_basket", "delivery_days", "gift", "service_contacts", "returned"]
for side in ("bug", "ok"):
    for name, rows in (("orders_export.csv", train), ("scoring_2024-05.csv", live)):
        with open(f"{side}/{name}", "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(head)
            w.writerows(rows)
    num = ["price", "past_return_rate", "two_sizes_in_basket", "delivery_days", "gift"]
    if side == "bug":
        num.append("service_contacts")
    json.dump({"numeric": num, "categorical": ["category", "size"], "validation_month": "2024-04", "seed": 5}, open(f"{side}/features.json", "w"), indent=2)
