import numpy as np


def games(n, rng):
    """8x8 draughts-like positions: 0 empty, 1/2 own man/king, 3/4 other man/king; result for the side to move."""
    boards = np.zeros((n, 8, 8), dtype=np.int8)
    dark = np.array([(r, c) for r in range(8) for c in range(8) if (r + c) % 2])
    for i in range(n):
        own, other = rng.integers(3, 10, 2)
        cells = dark[rng.permutation(32)[:own + other]]
        for k, (r, c) in enumerate(cells):
            king = rng.random() < 0.2
            boards[i, r, c] = (1 if k < own else 3) + king
    return boards


def results(boards, rng):
    rows = np.arange(8)[None, :, None]
    value = 1.0 * (boards == 1) + 2.2 * (boards == 2) - 1.0 * (boards == 3) - 2.2 * (boards == 4)
    value = value + 0.12 * ((boards == 1) * (7 - rows) - (boards == 3) * rows)
    centre = np.zeros((8, 8))
    centre[2:6, 2:6] = 0.3
    value = value + centre * np.sign(value)
    score = value.sum((1, 2))
    return (rng.random(len(boards)) < 1 / (1 + np.exp(-0.45 * score))).astype(np.int8)


rng = np.random.default_rng(17)
train = games(2500, rng)
y_train = results(train, rng)
fresh = games(1000, rng)
y_fresh = results(fresh, rng)
for side in ("bug", "ok"):
    np.savez_compressed(f"{side}/train.npz", board=train, result=y_train)
    valid, y_valid = fresh.copy(), y_fresh.copy()
    if side == "bug":
        r = np.random.default_rng(5)
        again = r.permutation(len(train))[:850]
        where = r.permutation(len(valid))[:850]
        valid[where], y_valid[where] = train[again], y_train[again]
    np.savez_compressed(f"{side}/valid.npz", board=valid, result=y_valid)
