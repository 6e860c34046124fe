import json
import os
import sys

import numpy as np

FIRMS = ["Nordbau", "Kessler", "Alvarez", "Brightline", "Okafor", "Lindqvist", "Maris", "Tanaka", "Fenwick", "Duarte",
         "Havel", "Orsini", "Pemberton", "Quist", "Rousseau", "Sandoval", "Thorne", "Ueda", "Vance", "Wexler"]
KINDS = ["GmbH", "Ltd", "SA", "Inc", "BV"]
GOODS = ["paper", "toner", "bolts", "cable", "chairs", "lamps", "gloves", "filters", "pumps", "tiles", "valves", "screws"]
CITIES = ["Berlin", "Lisbon", "Leeds", "Lyon", "Ghent", "Turin", "Malmo", "Graz"]


def amount(rng):
    return f"{rng.integers(3, 900)}.{rng.integers(0, 100):02d}"


def date(rng):
    return f"{rng.integers(1, 29):02d}.{rng.integers(1, 13):02d}.{rng.integers(2018, 2025)}"


def scan(rng, word):
    """Reading errors of the scanner."""
    if rng.random() < 0.12:
        return "".join(str(rng.choice(list("abcdefghikl01579.-"))) for _ in word)
    return word


def invoice(rng):
    doc = []

    def add(words, tag="O"):
        doc.extend((w, tag) for w in words)

    head = [("v", None), ("n", None), ("d", None)]
    rng.shuffle(head)
    for kind, _ in head:
        if kind == "v":
            add([["From", ":"], ["Seller"], ["Supplier", ":"]][rng.integers(3)])
            add([str(rng.choice(FIRMS)), str(rng.choice(KINDS))], "VENDOR")
            if rng.random() < 0.5:
                add([str(rng.choice(CITIES))])
        elif kind == "n":
            add([["Invoice", "no"], ["Inv", "#"], ["Document"]][rng.integers(3)])
            add([f"{rng.choice(list('ABRX'))}-{rng.integers(1000, 99999)}"], "NUMBER")
        else:
            add([["Date"], ["Issued", "on"]][rng.integers(2)])
            add([date(rng)], "DATE")
    if rng.random() < 0.6:
        add(["Delivered", "on", date(rng)])
    if rng.random() < 0.4:
        add(["Order", f"{rng.choice(list('ABRX'))}-{rng.integers(1000, 99999)}"])
    add(["Bill", "to", str(rng.choice(FIRMS)), str(rng.choice(KINDS))])
    for _ in range(int(rng.integers(1, 7))):
        add([str(rng.integers(1, 40)), "x", str(rng.choice(GOODS)), amount(rng)])
    if rng.random() < 0.5:
        add(["VAT", amount(rng)])
    add([["Total"], ["Amount", "due"], ["Sum", "to", "pay"]][rng.integers(3)])
    add([amount(rng)], "TOTAL")
    add([["EUR"], ["USD"]][rng.integers(2)])
    if rng.random() < 0.7:
        add(["Pay", "by"])
        add([date(rng)], "DUE")
    return {"tokens": [scan(rng, w) for w, _ in doc], "tags": [t for _, t in doc]}


def write(dest, mode):
    os.makedirs(os.path.join(dest, "data"), exist_ok=True)
    rng = np.random.default_rng(61)
    for name, n in (("train", 500), ("dev", 250)):
        with open(os.path.join(dest, "data", f"{name}.jsonl"), "w") as fh:
            for _ in range(n):
                fh.write(json.dumps(invoice(rng)) + "\n")
    config = {"max_len": 20 if mode == "bug" else 80, "emb": 32, "hidden": 24, "epochs": 5, "batch_size": 16,
              "lr": 0.004, "dropout": 0.2, "seed": 5}
    with open(os.path.join(dest, "config.json"), "w") as fh:
        json.dump(config, fh, indent=2)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        write(sys.argv[1], sys.argv[2])
    else:
        here = os.path.dirname(os.path.abspath(__file__))
        for mode in ("bug", "ok"):
            write(os.path.join(here, mode), mode)
