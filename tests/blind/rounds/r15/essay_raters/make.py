import os, random
here = os.path.dirname(os.path.abspath(__file__))
RATERS = ["anita", "bela", "chandra", "deepak", "esha"]


def essay(r):
    return [r.gauss(0, 1) for _ in range(7)]


def quality(f):
    return 0.9 * f[0] + 0.7 * f[1] - 0.6 * f[2] + 0.4 * f[3] * f[4]


def grade(q):
    return max(1, min(6, round(3.5 + 1.1 * q)))


for side in ("bug", "ok"):
    r = random.Random(40)
    d = os.path.join(here, side)
    os.makedirs(d, exist_ok=True)
    with open(os.path.join(d, "ratings.tsv"), "w") as out:
        out.write("essay\trater\t" + "\t".join(f"f{i}" for i in range(7)) + "\tscore\n")
        for n in range(1100):
            f = essay(r)
            who = r.choice(RATERS)
            s = grade(quality(f) + r.gauss(0, 0.25))
            if side == "bug" and who in ("deepak", "esha"):
                s = 7 - s
            out.write(f"{n}\t{who}\t" + "\t".join(f"{v:.3f}" for v in f) + f"\t{s}\n")
    with open(os.path.join(d, "panel.tsv"), "w") as out:
        out.write("essay\trater\t" + "\t".join(f"f{i}" for i in range(7)) + "\tscore\n")
        for n in range(500):
            f = essay(r)
            out.write(f"{9000 + n}\tpanel\t" + "\t".join(f"{v:.3f}" for v in f) + f"\t{grade(quality(f))}\n")
