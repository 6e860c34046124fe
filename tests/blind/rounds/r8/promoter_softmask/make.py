from pathlib import Path
import numpy as np

def build(rng, n, prefix):
    out = []
    for i in range(n):
        y = int(rng.integers(0, 2))
        s = rng.choice(list("ACGT"), size=90, p=[.27, .23, .23, .27] if y == 0 else [.25, .25, .25, .25])
        s = "".join(s)
        if y and rng.random() < 0.9:
            a = int(rng.integers(35, 55)); box = "".join(c if rng.random() < .92 else rng.choice(list("ACGT")) for c in "TATAAAAG")
            s = s[:a] + box + s[a + 8:]
        if y and rng.random() < 0.7:
            a = int(rng.integers(5, 25)); s = s[:a] + "GGCCAATCT" + s[a + 9:]
        out.append((f"{prefix}{i:05d}|{'promoter' if y else 'background'}", s))
    return out

rng = np.random.default_rng(4)
sets = {"train.fa": build(rng, 1250, "tr"), "val.fa": build(rng, 420, "va")}
mrng = np.random.default_rng(9)
for d in ("ok", "bug"):
    Path(d).mkdir(exist_ok=True)
    for name, recs in sets.items():
        with open(Path(d) / name, "w") as f:
            for h, s in recs:
                if d == "bug" and mrng.random() < 0.97:
                    a, b = int(mrng.integers(0, 6)), int(mrng.integers(80, 91))
                    s = s[:a] + s[a:b].lower() + s[b:]
                f.write(f">{h}\n{s}\n")
