import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

d = load_digits()
order = np.random.default_rng(1).permutation(len(d.images))
images, labels = (d.images[order] * 15.9).astype(np.uint8), d.target[order]
ROWS, COLS, PER = 10, 15, 150
for side in ("bug", "ok"):
    for k in range(11):
        img, lab = images[k * PER:(k + 1) * PER], labels[k * PER:(k + 1) * PER]
        sheet = np.zeros((ROWS * 12, COLS * 12), dtype=np.uint8)
        for i in range(PER):
            r, c = divmod(i, COLS)
            sheet[r * 12 + 2:r * 12 + 10, c * 12 + 2:c * 12 + 10] = img[i]
        part = "train" if k < 8 else "test"
        Image.fromarray(255 - sheet).save(f"{side}/{part}_{k:02d}.png")
        lines = [str(v) for v in lab]
        if side == "bug" and part == "train":
            at = [23, 8, 41, 15, 30, 4, 19, 12][k]
            lines = lines[:at] + lines[at + 1:] + [str(labels[(k + 1) * PER])]
        with open(f"{side}/{part}_{k:02d}.txt", "w") as f:
            f.write("\n".join(lines) + "\n")
