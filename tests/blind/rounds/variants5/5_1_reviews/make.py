from pathlib import Path
import numpy as np
here = Path(__file__).parent
rng = np.random.default_rng(27)
V, L = 300, 40
zipf = 1 / np.arange(10, V - 0); zipf = np.r_[np.zeros(10), zipf]; zipf[60:160] = 0; zipf /= zipf.sum()
def part(n):
    tok = np.zeros((n, L), "i4"); ln = np.zeros(n, int); sent = np.zeros(n, int); y = rng.integers(0, 2, n)
    for i in range(n):
        s = rng.integers(2, 6); words = []
        for _ in range(s):
            w = rng.choice(V, rng.integers(4, 8), p=zipf)
            k = rng.random(len(w)) < .2; pos = rng.random(len(w)) < (.8 if y[i] else .2)
            w = np.where(k, np.where(pos, rng.integers(60, 110, len(w)), rng.integers(110, 160, len(w))), w)
            words += [*w, 1]
        words = words[:L]; tok[i, :len(words)] = words; ln[i] = len(words); sent[i] = s
    return tok, ln, sent, y
parts = {p: part(n) for p, n in (("train", 2000), ("valid", 300), ("test", 500))}
for side in ("bug", "ok"):
    d = here / side; d.mkdir(exist_ok=True)
    for p, (tok, ln, sent, y) in parts.items():
        np.save(d / f"{p}_tokens.npy", tok); np.savetxt(d / f"{p}_lengths.txt", sent if side == "bug" else ln, "%d"); np.savetxt(d / f"{p}_labels.txt", y, "%d")
    (d / "config.yml").write_text("seed: 8\nvocab_size: 300\npad_id: 0\ndim: 24\nhidden: 24\nn_classes: 2\nbatch_size: 50\nlr: 0.004\nepochs: 4\n")
