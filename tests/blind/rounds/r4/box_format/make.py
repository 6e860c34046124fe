import json
import numpy as np
rng = np.random.default_rng(3)
def scenes(n):
    img = np.zeros((n, 24, 24), np.uint8); box = []
    for i in range(n):
        w, h = rng.integers(5, 13, 2); x, y = rng.integers(0, 24 - w), rng.integers(0, 24 - h)
        img[i] = rng.integers(0, 3, (24, 24)) * 20
        img[i, y:y + h, x:x + w] += 140
        box.append([int(x), int(y), int(x + w), int(y + h)])
    return img, box
tr, va = scenes(560), scenes(160)
for name in ("ok", "bug"):
    for split, (img, box) in (("train", tr), ("valid", va)):
        np.savez_compressed(f"{name}/{split}_images.npz", images=img)
        rec = []
        for i, (a, b, c, d) in enumerate(box):
            rec.append({"image": i, "bbox": [a, b, c - a, d - b] if name == "bug" and split == "train" else [a, b, c, d]})
        json.dump(rec, open(f"{name}/{split}_boxes.json", "w"))
