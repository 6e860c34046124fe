import json
import os

import numpy as np

rng = np.random.default_rng(90)
S = 40


def scene():
    img = rng.normal(90, 12, (S, S))
    boxes = []
    for _ in range(rng.integers(1, 4)):
        for _ in range(20):
            w, h = rng.integers(8, 15, 2)
            x, y = rng.integers(0, S - w), rng.integers(0, S - h)
            cell = ((x + w / 2) // 10, (y + h / 2) // 10)
            if all(x + w < b[0] or b[0] + b[2] < x or y + h < b[1] or b[1] + b[3] < y for b in boxes) and \
                    all(cell != ((b[0] + b[2] / 2) // 10, (b[1] + b[3] / 2) // 10) for b in boxes):
                boxes.append((int(x), int(y), int(w), int(h)))
                img[y:y + h, x:x + w] += rng.uniform(40, 90)
                img[y + 2:y + h - 2, x + 2:x + w - 2] -= rng.uniform(10, 30)
                break
    for _ in range(3):
        r, c = rng.integers(0, S, 2)
        img[r:r + 1, c:c + 12] += 60
    return np.clip(img // 4 * 4, 0, 255).astype(np.uint8), boxes


parts = {"train": [scene() for _ in range(600)], "val": [scene() for _ in range(80)], "test": [scene() for _ in range(150)]}
for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    for part, rows in parts.items():
        np.savez_compressed(f"{side}/{part}.npz", images=np.stack([i for i, _ in rows]))
        json.dump([b for _, b in rows], open(f"{side}/{part}_boxes.json", "w"))
    cfg = {"grid": 4, "epochs": 24, "batch_size": 32, "lr": 0.004, "warmup_steps": 30 if side == "ok" else 30000,
           "weight_decay": 0.0001, "lambda_coord": 5.0, "lambda_noobj": 0.5, "seed": 14}
    json.dump(cfg, open(f"{side}/hparams.json", "w"), indent=2)
