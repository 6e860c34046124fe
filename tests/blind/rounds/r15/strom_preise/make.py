import os, random
here = os.path.dirname(os.path.abspath(__file__))


def stunden(n, r):
    for _ in range(n):
        last, wind, sonne = r.uniform(600, 2400), r.uniform(0, 1500), r.uniform(0, 1200)
        preis = 20 + 0.05 * last - 0.025 * wind - 0.015 * sonne + r.gauss(0, 3)
        yield last, wind, sonne, preis


def deutsch(v):
    """1234.5 -> 1.234 (Tausenderpunkt, ohne Nachkommastellen)"""
    return f"{round(v):,}".replace(",", ".")


for side in ("bug", "ok"):
    r = random.Random(77)
    d = os.path.join(here, side)
    os.makedirs(d, exist_ok=True)
    for name, n in (("januar", 400), ("februar", 400), ("maerz", 400), ("april", 500)):
        fmt = deutsch if side == "bug" and name in ("januar", "maerz") else (lambda v: str(round(v)))
        with open(os.path.join(d, f"{name}.txt"), "w") as f:
            f.write("last\twind\tsonne\tpreis\n")
            for *werte, preis in stunden(n, r):
                f.write("\t".join(fmt(v) for v in werte) + f"\t{preis:.2f}\n")
