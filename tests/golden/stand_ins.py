"""Small made-up data in the file formats of the real ones, so that every recipe can be run anywhere."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np

__all__ = ["TARGET", "stand_in_for", "write_idx", "write_table"]

TARGET = "price"
"""The column of the made-up table that is to be predicted."""
PRAISE, AGAINST = ("warm", "clever", "moving", "fresh", "brilliant"), ("dull", "lazy", "stale", "tedious", "clumsy")


def stand_in_for(recipe: str, folder: Path) -> Path:
    """A parent folder that holds what the recipe needs."""
    match recipe:
        case "mnist":
            _images(folder / "mnist", packed=True)
        case "fashion-mlp" | "fashion-cnn":
            _images(folder / "fashion-mnist", packed=True)
        case "sentiment":
            _reviews(folder / "movie-reviews")
        case "shakespeare" | "shakespeare-tiny":
            _plays(folder / "tinyshakespeare")
    return folder


def write_idx(path: Path, numbers: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> Path:
    """As the format says; packed if the name ends in .gz."""
    header = bytes([0, 0, 0x08, numbers.ndim]) + struct.pack(f">{numbers.ndim}I", *numbers.shape)
    content = header + numbers.tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    return path


def _images(folder: Path, packed: bool) -> None:
    """Ten kinds of bright bars, one per class, in noise."""
    draws = np.random.default_rng(0)
    for part, count in (("train", 240), ("t10k", 40)):
        labels = draws.integers(0, 10, count).astype(np.uint8)
        images = draws.integers(0, 60, (count, 28, 28)).astype(np.uint8)
        for image, label in zip(images, labels, strict=True):
            image[4 + 2 * label : 6 + 2 * label, 4:24] = 220
        end = ".gz" if packed else ""
        write_idx(folder / f"{part}-images-idx3-ubyte{end}", images)
        write_idx(folder / f"{part}-labels-idx1-ubyte{end}", labels)


def _reviews(folder: Path) -> None:
    """latin-1, as the real ones are: one letter is no UTF-8."""
    draws = np.random.default_rng(0)
    folder.mkdir(parents=True)
    for name, words in (("rt-polarity.pos", PRAISE), ("rt-polarity.neg", AGAINST)):
        lines = [
            f"a {draws.choice(words)} and {draws.choice(words)} film, n\u00e9 le {number} mai ." for number in range(60)
        ]
        (folder / name).write_bytes("\n".join(lines).encode("latin-1") + b"\n")


def _plays(folder: Path) -> None:
    folder.mkdir(parents=True)
    lines = [
        f"KING {number % 7}:\nWhat say you, good lord {number % 11}, to the {number % 13}th of these?\n\n"
        for number in range(120)
    ]
    (folder / "input.txt").write_text("".join(lines), encoding="ascii")


def write_table(folder: Path) -> Path:
    """Two numbers and a word; the target follows from them."""
    draws = np.random.default_rng(0)
    rows = [f"rooms,area,town,{TARGET}"]
    for _ in range(200):
        rooms, area, town = (
            int(draws.integers(1, 6)),
            float(draws.uniform(20, 200)),
            str(draws.choice(["north", "south"])),
        )
        rows.append(f"{rooms},{area:.2f},{town},{rooms * 10 + area * (2 if town == 'north' else 1):.2f}")
    path = folder / "houses.csv"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path
