import csv
import numpy as np

ORDER = ["stop", "yield", "no_entry", "speed_30", "priority_road", "parking", "roadworks", "keep_right"]
S = 24


def draw(kind, rng):
    yy, xx = np.mgrid[0:S, 0:S].astype(np.float32)
    cx, cy = S / 2 + rng.uniform(-2.5, 2.5, 2)
    r = rng.uniform(7.0, 10.0)
    u, v = (xx - cx) / r, (yy - cy) / r
    img = np.ones((S, S, 3), np.float32) * rng.uniform(0.25, 0.7, 3)
    red, blue, yel, white, black = (np.array(c) for c in
        ([.8, .1, .1], [.1, .2, .75], [.95, .8, .1], [.95, .95, .95], [.05, .05, .05]))
    disc = u ** 2 + v ** 2 < 1
    octo = (np.abs(u) < .95) & (np.abs(v) < .95) & (np.abs(u) + np.abs(v) < 1.3)
    up = (v < .8) & (v > -1) & (np.abs(u) < (v + 1) / 1.8)
    dia = np.abs(u) + np.abs(v) < 1.1
    sq = (np.abs(u) < .9) & (np.abs(v) < .9)
    if kind == "stop":
        img[octo] = red
        img[(np.abs(v) < .2) & (np.abs(u) < .6)] = white
    elif kind == "yield":
        inv = up[::-1]
        img[inv] = red
        img[inv & (np.abs(u) < .35) & (np.abs(v) < .45)] = white
    elif kind == "no_entry":
        img[disc] = red
        img[(np.abs(v) < .2) & (np.abs(u) < .7)] = white
    elif kind == "speed_30":
        img[disc] = red
        img[u ** 2 + v ** 2 < .55] = white
        img[(np.abs(u) < .4) & (np.abs(v) < .3) & (np.abs(u) > .1)] = black
    elif kind == "priority_road":
        img[dia] = white
        img[np.abs(u) + np.abs(v) < .75] = yel
    elif kind == "parking":
        img[sq] = blue
        img[(np.abs(u + .2) < .15) & (np.abs(v) < .6)] = white
        img[(np.abs(u - .15) < .3) & (np.abs(v + .25) < .35)] = white
    elif kind == "roadworks":
        img[up] = red
        img[up & (np.abs(u) < .4) & (v > -.1) & (v < .6)] = white
        img[(np.abs(u) < .12) & (v > 0) & (v < .5)] = black
    else:
        img[disc] = blue
        img[(np.abs(u - v) < .25) & (np.abs(u) < .6) & (np.abs(v) < .6)] = white
    img = img * rng.uniform(.5, 1.15) + rng.normal(0, .09, img.shape)
    return (np.clip(img, 0, 1) * 255).astype(np.uint8)


for side in ("bug", "ok"):
    rng = np.random.default_rng(11)
    y = rng.integers(0, len(ORDER), 1600)
    np.savez(f"{side}/train.npz", images=np.stack([draw(ORDER[k], rng) for k in y]), class_id=y)
    yt = rng.integers(0, len(ORDER), 500)
    np.save(f"{side}/test_images.npy", np.stack([draw(ORDER[k], rng) for k in yt]))
    with open(f"{side}/test.csv", "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(["row", "camera", "sign"])
        for i, k in enumerate(yt):
            w.writerow([i, f"cam{rng.integers(1, 5)}", ORDER[k]])
    names = sorted(ORDER) if side == "bug" else ORDER
    with open(f"{side}/classes.txt", "w") as f:
        f.write("\n".join(names) + "\n")
