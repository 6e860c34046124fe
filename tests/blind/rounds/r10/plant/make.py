import csv
import os
import sys

import numpy as np

S = 32


def rosette(rng):
    """Top view of a rosette: leaves are ellipses around the centre, some occluded by glare."""
    img = np.zeros((3, S, S)) + np.array([0.35, 0.27, 0.2]).reshape(3, 1, 1)
    yy, xx = np.mgrid[:S, :S]
    cy, cx = rng.uniform(13, 19, 2)
    leaves = int(rng.integers(3, 9))
    size = rng.uniform(0.6, 1.4)
    start = rng.uniform(0, 2 * np.pi)
    cover = np.zeros((S, S), dtype=bool)
    for k in range(leaves):
        a = start + 2 * np.pi * k / leaves + rng.normal(0, 0.15)
        length, width = size * rng.uniform(3.5, 5.5), size * rng.uniform(1.4, 2.2)
        oy, ox = cy + length * np.sin(a), cx + length * np.cos(a)
        u = (xx - ox) * np.cos(a) + (yy - oy) * np.sin(a)
        v = -(xx - ox) * np.sin(a) + (yy - oy) * np.cos(a)
        cover |= (u / length) ** 2 + (v / width) ** 2 < 1
    green = np.array([0.2, 0.55, 0.18]).reshape(3, 1) * rng.uniform(0.8, 1.2)
    img[:, cover] = green
    img = img * rng.uniform(0.85, 1.15) + rng.normal(0, 0.05, img.shape)
    return (np.clip(img, 0, 1) * 255).astype(np.uint8), float(cover.sum()) * 0.42


def write(dest, mode):
    rng = np.random.default_rng(17)
    os.makedirs(os.path.join(dest, "data", "trays"), exist_ok=True)
    os.makedirs(os.path.join(dest, "cache"), exist_ok=True)
    area, images = {}, {}
    for tray in range(1, 13):
        stack, ids = [], []
        for pot in range(1, 101):
            img, mm2 = rosette(rng)
            pid = f"t{tray}_p{pot}"
            area[pid], images[pid] = mm2, img
            stack.append(img)
            ids.append(pid)
        np.savez(os.path.join(dest, "data", "trays", f"tray_{tray}.npz"), ids=np.array(ids), images=np.stack(stack))
    listing = list(area)
    np.random.default_rng(3).shuffle(listing)
    with open(os.path.join(dest, "data", "leaf_area.csv"), "w", newline="") as fh:
        w = csv.writer(fh)
        w.writerow(["plant_id", "area_mm2"])
        for pid in listing:
            w.writerow([pid, f"{area[pid]:.2f}"])
    cached = sorted(listing) if mode == "bug" else listing
    x = np.stack([images[p] for p in cached]).astype(np.float32) / 255
    np.save(os.path.join(dest, "cache", "images_f32.npy"), x)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        write(sys.argv[1], sys.argv[2])
    else:
        here = os.path.dirname(os.path.abspath(__file__))
        for mode in ("bug", "ok"):
            write(os.path.join(here, mode), mode)
