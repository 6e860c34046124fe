"""Conveyor pictures with one parcel each; two annotation teams delivered the boxes."""
import json
import pathlib

import numpy as np

HERE = pathlib.Path(__file__).parent
SIZE = 20


def picture(rng):
    w, h = rng.integers(4, 10, 2)
    x, y = rng.integers(0, SIZE - w), rng.integers(0, SIZE - h)
    img = rng.normal(0, 0.2, (SIZE, SIZE))
    img[y:y + h, x:x + w] += 1.0
    return img.astype(np.float16), [int(x), int(y), int(x + w), int(y + h)]


def write(folder, broken):
    rng = np.random.default_rng(29)
    folder.mkdir(exist_ok=True)
    for part, n in (("team_a", 500), ("team_b", 500), ("test", 250)):
        pics, boxes = zip(*(picture(rng) for _ in range(n)))
        if broken and part == "team_b":
            boxes = [[a, b, c - a, d - b] for a, b, c, d in boxes]
        np.save(folder / f"{part}.npy", np.stack(pics))
        (folder / f"{part}.json").write_text(json.dumps([{"id": i, "box": b} for i, b in enumerate(boxes)]))


for name in ("bug", "ok"):
    write(HERE / name, name == "bug")
