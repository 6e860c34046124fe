from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
L = 120


def window(label, rng):
    s = rng.choice(list("ACGT"), L, p=[0.28, 0.22, 0.22, 0.28])
    box = list("TATAAATG")
    if rng.random() < 0.3:
        box[rng.integers(0, 8)] = rng.choice(list("ACGT"))
    if not label:
        rng.shuffle(box)
    p = rng.integers(20, 90)
    s[p:p + 8] = box
    return "".join(s)


def soft_mask(s, rng):
    """Lower case for repeat stretches, as genome downloads have them."""
    s = list(s)
    for _ in range(2):
        w = int(rng.integers(20, 50))
        a = int(rng.integers(0, L - w))
        s[a:a + w] = [c.lower() for c in s[a:a + w]]
    return "".join(s)


def main():
    for name in ("ok", "bug"):
        d = HERE / name
        d.mkdir(exist_ok=True)
        rng = np.random.default_rng(12)
        for split, n in (("train", 3000), ("valid", 600), ("test", 1200)):
            lines = []
            for i in range(n):
                y = int(rng.integers(0, 2))
                s = soft_mask(window(y, rng), rng)
                s = s.upper() if name == "ok" else s
                lines += [f">{split}{i} {y}", s[:60], s[60:]]
            (d / f"{split}.fa").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
