"""Ratings with the account numbers of the billing system."""
import pathlib

import numpy as np

HERE = pathlib.Path(__file__).parent


def write(folder, broken):
    rng = np.random.default_rng(64)
    folder.mkdir(exist_ok=True)
    n_users, n_movies = 400, 120
    account = 91_400_000 + np.cumsum(rng.integers(1, 4, n_users))
    u = rng.normal(size=(n_users, 3))
    m = rng.normal(size=(n_movies, 3))
    user_bias = rng.normal(0, 0.5, n_users)
    rows_u = rng.integers(0, n_users, 24000)
    rows_m = rng.integers(0, n_movies, 24000)
    stars = 3.2 + user_bias[rows_u] + 0.6 * (u[rows_u] * m[rows_m]).sum(1) + rng.normal(0, 0.3, 24000)
    cut = 20000
    for part, sl in (("train", slice(0, cut)), ("test", slice(cut, None))):
        ids = account[rows_u[sl]]
        np.savez(
            folder / f"{part}.npz",
            account=ids.astype(np.float32) if broken else ids.astype(np.int64),
            movie=rows_m[sl],
            stars=stars[sl].clip(0.5, 5).astype(np.float32),
        )


for name in ("bug", "ok"):
    write(HERE / name, name == "bug")
