import csv
import os
import sys

import numpy as np

MARKETS = ["online", "agency", "corporate", "direct", "groups"]
MARKET_EFFECT = [0.5, 0.2, -0.9, -0.6, 0.7]


def bookings(n, seed, with_refund):
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        lead = rng.gamma(1.3, 60)
        nights = int(rng.integers(1, 9))
        adults = int(rng.integers(1, 4))
        adr = max(35.0, rng.normal(105, 35))
        market = int(rng.choice(5, p=[0.4, 0.2, 0.15, 0.15, 0.1]))
        requests = int(rng.poisson(0.6))
        previous = int(rng.random() < 0.12)
        parking = int(rng.random() < 0.1)
        logit = (-1.3 + 0.012 * lead + MARKET_EFFECT[market] - 0.8 * requests
                 + 1.8 * previous + 0.008 * (adr - 105) - 1.5 * parking)
        canceled = int(rng.random() < 1 / (1 + np.exp(-logit)))
        row = {"booking_id": 100000 + i, "lead_time": round(lead), "nights": nights, "adults": adults,
               "adr": round(adr, 2), "market": MARKETS[market], "special_requests": requests,
               "previous_cancellation": previous, "parking": parking}
        if with_refund:
            paid = canceled and rng.random() < 0.93 or (not canceled and rng.random() < 0.02)
            row["refund_eur"] = round(adr * nights * rng.uniform(0.3, 1.0), 2) if paid else 0.0
        row["is_canceled"] = canceled
        rows.append(row)
    return rows


def write(dest, mode):
    os.makedirs(os.path.join(dest, "data"), exist_ok=True)
    rows = bookings(5000, 41, with_refund=(mode == "bug"))
    with open(os.path.join(dest, "data", "bookings.csv"), "w", newline="") as fh:
        w = csv.DictWriter(fh, fieldnames=list(rows[0]))
        w.writeheader()
        w.writerows(rows)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        write(sys.argv[1], sys.argv[2])
    else:
        here = os.path.dirname(os.path.abspath(__file__))
        for mode in ("bug", "ok"):
            write(os.path.join(here, mode), mode)
