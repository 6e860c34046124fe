from pathlib import Path
import numpy as np

HERE = Path(__file__).resolve().parent
DIM = 6

for side in ("bug", "ok"):
    rng = np.random.default_rng(27)
    out = HERE / side
    out.mkdir(exist_ok=True)
    ids = 310_000_000 + np.cumsum(rng.integers(1, 12, 800))
    profile = rng.normal(size=(800, DIM)).astype(np.float32)
    books = rng.normal(size=(120, DIM)).astype(np.float32)
    np.savez(out / "readers.npz", reader_id=ids, profile=profile)
    np.save(out / "books.npy", books)
    for part, n in (("loans_train", 3000), ("loans_test", 1000)):
        r, b = rng.integers(0, 800, n), rng.integers(0, 120, n)
        liked = ((profile[r] * books[b]).sum(1) + 0.5 * rng.normal(size=n) > 0).astype(np.int64)
        rid = ids[r]
        if side == "bug" and part == "loans_train":
            rid = rid.astype(np.float32)
        np.savez(out / f"{part}.npz", reader_id=rid, book=b, liked=liked)
