import csv
import json
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
QUEUES = ["billing", "network", "hardware", "accounts", "sales"]
WORDS = ("invoice refund charge payment slow router outage signal screen battery keyboard broken "
         "password login locked profile price offer upgrade quote please today help again since").split()
CHANNELS = ["mail", "phone", "chat"]


def draw(n, rng):
    rows = []
    minute = 0.0
    for _ in range(n):
        minute += rng.exponential(9.0)
        q = int(rng.choice(5, p=[0.26, 0.24, 0.2, 0.18, 0.12]))
        p = np.full(len(WORDS), 1.0)
        p[4 * q:4 * q + 4] = 5.0
        p[20:] = 2.0
        text = " ".join(rng.choice(WORDS, size=rng.integers(4, 9), p=p / p.sum()))
        ch = rng.choice(3, p=[[.6, .2, .2], [.2, .6, .2], [.4, .4, .2], [.2, .3, .5], [.4, .2, .4]][q])
        rows.append(dict(text=text, channel=CHANNELS[ch], minute=minute, customer_years=round(rng.gamma(2, 2), 1), queue=QUEUES[q]))
    return rows


def finish(rows, first, bug):
    order = range(len(rows))
    if bug:
        order = sorted(order, key=lambda i: rows[i]["queue"])
    for number, i in enumerate(order):
        rows[i]["ticket_no"] = first + number
    for r in rows:
        m = int(r.pop("minute"))
        r["opened"] = f"{m // 1440} {m // 60 % 24:02d}:{m % 60:02d}"
    return rows


for name in ("bug", "ok"):
    rng = np.random.default_rng(21)
    out = HERE / name
    out.mkdir(exist_ok=True)
    rows = finish(draw(6000, rng), 410000, name == "bug")
    idx = rng.permutation(len(rows))
    fields = ["ticket_no", "opened", "channel", "customer_years", "text", "queue"]
    for fn, part in (("tickets_a.csv", idx[:4500]), ("tickets_b.csv", idx[4500:])):
        with open(out / fn, "w", newline="") as fh:
            w = csv.DictWriter(fh, fields)
            w.writeheader()
            w.writerows(rows[i] for i in part)
    (out / "router.json").write_text(json.dumps(dict(train_file="tickets_a.csv", valid_file="tickets_b.csv", keywords=WORDS,
                                     channels=CHANNELS, queues=QUEUES, lr=2e-3, batch_size=64, epochs=20), indent=1))
