from pathlib import Path
import numpy as np

HERE = Path(__file__).resolve().parent
# event ids: 0 filler, 1 view, 2 search, 3 filter, 4 add, 5 remove, 6 checkout_page, 7 shipping_page, 8 help_page


def sessions(n, rng):
    length = rng.integers(4, 16, n)
    ev = np.zeros((n, 16), np.int64)
    buys = np.zeros(n, np.int64)
    for i, L in enumerate(length):
        ev[i, :L - 1] = rng.choice([1, 2, 3, 4, 5, 6], L - 1, p=[0.4, 0.2, 0.1, 0.15, 0.1, 0.05])
        last = rng.integers(6, 9)
        ev[i, L - 1] = last
        added = (ev[i] == 4).sum() - (ev[i] == 5).sum()
        p = {6: 0.95, 7: 0.75 if added > 0 else 0.15, 8: 0.05}[int(last)]
        buys[i] = rng.random() < p
    return ev, length, buys


for side in ("bug", "ok"):
    rng = np.random.default_rng(44)
    out = HERE / side
    out.mkdir(exist_ok=True)
    for part, n in (("train", 900), ("test", 400)):
        ev, length, buys = sessions(n, rng)
        if side == "bug":
            length = length - 1
        np.save(out / f"{part}_events.npy", ev)
        np.save(out / f"{part}_lengths.npy", length)
        np.save(out / f"{part}_bought.npy", buys)
