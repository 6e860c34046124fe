"""Frames of a traffic camera, one vehicle each, and the boxes of three annotators."""
import json
import os

import numpy as np

SIZE = 24


def frame(rng):
    w, h = rng.integers(7, 13), rng.integers(4, 8)
    x1, y1 = rng.integers(0, SIZE - w + 1), rng.integers(0, SIZE - h + 1)
    img = np.full((SIZE, SIZE), 90.0) + np.linspace(-15, 15, SIZE)[:, None]
    img[:, 11:13] += 20
    img[y1:y1 + h, x1:x1 + w] = rng.choice([30, 190, 220])
    img[y1 + 1:y1 + h // 2, x1 + w // 2:x1 + w - 1] = 120
    img += rng.normal(0, 10, img.shape)
    return np.clip(img, 0, 255).astype(np.uint8), [int(x1), int(y1), int(x1 + w), int(y1 + h)]


rng = np.random.default_rng(64)
pairs = [frame(rng) for _ in range(1500)]
names = ["anna", "bogdan", "chen"]
for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    np.save(f"{side}/frames.npy", np.stack([p[0] for p in pairs]))
    book = {name: [] for name in names + ["reviewed"]}
    for i, (_, box) in enumerate(pairs):
        who = "reviewed" if i >= 1200 else names[i % 3]
        x1, y1, x2, y2 = box
        if side == "bug" and who in ("bogdan", "chen"):
            box = [y1, x1, y2, x2]
        book[who].append({"frame": i, "box": box})
    for who, items in book.items():
        with open(f"{side}/boxes_{who}.json", "w") as f:
            json.dump({"annotator": who, "boxes": items}, f)
