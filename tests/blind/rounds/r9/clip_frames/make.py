import os
import numpy as np
S, T = 12, 14
def clips(n, seed):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:S, :S]
    frames, labels = [], []
    for i in range(n):
        c = i % 4
        d = [(-1, 0), (1, 0), (0, -1), (0, 1)][c]
        p0 = rng.uniform(4, 7, 2); v = rng.uniform(0.3, 0.45); r = rng.uniform(1.5, 2.2)
        for t in range(T):
            p = p0 + np.array(d) * v * (t - T / 2)
            m = ((xx - p[0]) ** 2 + (yy - p[1]) ** 2 < r * r)
            frames.append(np.packbits(m.reshape(-1)))
        labels.append(c)
    return np.stack(frames), labels
for name in ("bug", "ok"):
    os.makedirs(name, exist_ok=True)
    for split, n, seed in (("train", 400, 0), ("valid", 120, 1)):
        fr, lab = clips(n, seed)
        np.savez_compressed(f"{name}/{split}.npz", frames=fr)
        pat = "f{}.png" if (name == "bug" and split == "train") else "f{:02d}.png"
        with open(f"{name}/{split}.csv", "w") as fh:
            fh.write("clip,file,row,label\n")
            for i in range(n):
                for t in range(T):
                    fh.write(f"c{i:03d},{pat.format(t + 1)},{i * T + t},{lab[i]}\n")
