import csv
import os
import sys

import numpy as np

QUEUES = {
    "billing": ["invoice", "refund", "charged", "payment", "card", "receipt", "price"],
    "network": ["wifi", "router", "slow", "connection", "signal", "outage", "vpn"],
    "account": ["password", "login", "email", "username", "locked", "profile", "verify"],
    "shipping": ["parcel", "delivery", "address", "courier", "tracking", "late", "box"],
    "hardware": ["screen", "battery", "keyboard", "broken", "charger", "noise", "fan"],
    "contract": ["cancel", "upgrade", "plan", "renew", "terms", "notice", "extend"],
}
FILL = "how can i please help me with my the a is not since when does do you it this again today yesterday about for".split()
STARTS = ["hello", "hi", "why", "can someone", "good morning", "what", "question", "urgent"]


def question(rng, queue):
    names = list(QUEUES)
    words = [str(rng.choice(STARTS))]
    for _ in range(int(rng.integers(6, 14))):
        u = rng.random()
        if u < 0.3:
            words.append(str(rng.choice(QUEUES[queue])))
        elif u < 0.36:
            words.append(str(rng.choice(QUEUES[str(rng.choice(names))])))
        else:
            words.append(str(rng.choice(FILL)))
    return " ".join(words) + "?"


def write(dest, mode):
    os.makedirs(os.path.join(dest, "data"), exist_ok=True)
    rng = np.random.default_rng(33)
    n, names = 3000, list(QUEUES)
    ids = 5000 + rng.permutation(n)
    tickets = 5000 + 250 + rng.permutation(n)
    queues = [names[int(q)] for q in rng.integers(0, len(names), n)]
    with open(os.path.join(dest, "data", "questions.csv"), "w", newline="") as fh:
        w = csv.writer(fh)
        w.writerow(["id", "text"])
        for i in range(n):
            w.writerow([ids[i], question(rng, queues[i])])
    keys = tickets if mode == "bug" else ids
    order = rng.permutation(n)
    with open(os.path.join(dest, "data", "routes.csv"), "w", newline="") as fh:
        w = csv.writer(fh)
        w.writerow(["id", "queue"])
        for i in order:
            w.writerow([keys[i], queues[i]])


if __name__ == "__main__":
    if len(sys.argv) == 3:
        write(sys.argv[1], sys.argv[2])
    else:
        here = os.path.dirname(os.path.abspath(__file__))
        for mode in ("bug", "ok"):
            write(os.path.join(here, mode), mode)
