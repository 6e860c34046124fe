import os
import sys

import numpy as np

AA = "ACDEFGHIKLMNPQRSTVWY"
HELIX = dict(zip("AELMQKRH", [6, 5, 5, 3, 3, 3, 3, 1.5]))
SHEET = dict(zip("VIYFWTC", [6, 5, 4, 4, 2, 4, 2]))
COIL = dict(zip("GPNDS", [6, 5, 4, 4, 4]))
TAG = 10


def table(bias):
    w = np.array([bias.get(a, 0.7) for a in AA])
    return w / w.sum()


def protein(rng):
    probs = {"H": table(HELIX), "E": table(SHEET), "C": table(COIL)}
    n = int(rng.integers(60, 130))
    ss, seq, state = "", "", "C"
    while len(ss) < n:
        length = int(rng.integers(7, 16)) if state == "H" else int(rng.integers(4, 9)) if state == "E" else int(rng.integers(3, 8))
        ss += state * length
        seq += "".join(rng.choice(list(AA), size=length, p=probs[state]))
        state = rng.choice(["H", "E"]) if state == "C" else "C"
    return seq[:n], ss[:n]


def write(dest, mode):
    os.makedirs(os.path.join(dest, "data"), exist_ok=True)
    rng = np.random.default_rng(55)
    with open(os.path.join(dest, "data", "chains.fasta"), "w") as fa, \
            open(os.path.join(dest, "data", "structure.ss3"), "w") as st:
        for i in range(700):
            seq, ss = protein(rng)
            if mode == "bug":
                ss = ("C" * TAG + ss)[:len(seq)]
            name = f"chain{i:04d}"
            fa.write(f">{name}\n")
            for k in range(0, len(seq), 60):
                fa.write(seq[k:k + 60] + "\n")
            st.write(f"{name} {ss}\n")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        write(sys.argv[1], sys.argv[2])
    else:
        here = os.path.dirname(os.path.abspath(__file__))
        for mode in ("bug", "ok"):
            write(os.path.join(here, mode), mode)
