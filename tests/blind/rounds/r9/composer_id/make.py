import json
import os
import random

HERE = os.path.dirname(os.path.abspath(__file__))
COMPOSERS = ["Ahrens", "Bellini_jr", "Corvo", "Dahl"]
STEPS = [[-1, 1, 1, -1, 2], [4, -3, 5, -4, 1], [1, 1, 1, -7, 2], [0, 3, 0, -3, 2]]


def piece(rng, who):
    head = ["<bos>", f"tempo_{rng.randrange(6)}", f"meter_{rng.randrange(3)}", f"key_{rng.randrange(12)}", "mode_0"]
    for tr in range(5):
        head += [f"track_{tr}", f"prog_{rng.randrange(8)}", f"vol_{rng.randrange(4)}"]
    pitch, notes = rng.randrange(55, 70), []
    for _ in range(48):
        step = rng.choice(STEPS[who]) if rng.random() < 0.8 else rng.randint(-5, 5)
        pitch += step
        if not 45 <= pitch <= 84:
            pitch = 64
        notes.append(f"n{pitch}")
    return head + notes


def write(path, n, rng):
    with open(path, "w") as fh:
        for _ in range(n):
            who = rng.randrange(4)
            fh.write(COMPOSERS[who] + "\t" + " ".join(piece(rng, who)) + "\n")


for folder in ("bug", "ok"):
    d = os.path.join(HERE, folder)
    os.makedirs(d, exist_ok=True)
    rng = random.Random(77)
    write(os.path.join(d, "train.txt"), 400, rng)
    write(os.path.join(d, "valid.txt"), 120, rng)
    with open(os.path.join(d, "config.json"), "w") as fh:
        json.dump({"max_events": 20 if folder == "bug" else 72, "embed": 24, "channels": 48, "dropout": 0.3,
                   "lr": 0.003, "weight_decay": 0.01, "batch": 16, "epochs": 22, "seed": 2}, fh, indent=1)
