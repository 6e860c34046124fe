"""The sharded form of a checkpoint: each process writes what it holds, and the manifest says which piece of which
tensor lies where.

FOLDER/step-00000120/manifest.json               as always, of format 2, with a list of pieces
                     model-0-of-2.safetensors    what the first of two processes held of the weights; ema-, optimizer-
                     alike model-1-of-2.safetensors training.pt                 counters, random states: small, from the
                     first process

The list is JSON under the manifest's seal: nothing here is ever unpickled. No torch.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from trueloop.errors import BadCheckpoint

__all__ = [
    "OPTIMIZER",
    "PIECES",
    "SHARDED",
    "Piece",
    "Spread",
    "file_of",
    "group_of",
    "is_sharded",
    "listed",
    "spreads_in",
]

SHARDED: Final = 2
"""The manifest's format: a trueloop that knows only whole checkpoints refuses it with a sentence."""
PIECES: Final = "pieces"
OPTIMIZER: Final = "optimizer"
"""The group of what the optimizer holds; every other group is a model."""

Numbers = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """A block of a tensor: in which file, where in the tensor it begins, and how long it is along each dimension."""

    file: str
    start: Numbers
    size: Numbers


@dataclass(frozen=True, slots=True)
class Spread:
    """A tensor, and where its pieces are."""

    dtype: str
    """torch's word: float32."""
    shape: Numbers
    pieces: tuple[Piece, ...]

    @property
    def count(self) -> int:
        """How many numbers."""
        return math.prod(self.shape)


def file_of(group: str, rank: int, world: int) -> str:
    return f"{group}-{rank}-of-{world}.safetensors"


def group_of(key: str) -> tuple[str, str]:
    """'model/encoder.weight' -> ('model', 'encoder.weight')."""
    group, _, name = key.partition("/")
    return group, name


def is_sharded(manifest: Mapping[str, Any]) -> bool:
    return manifest.get("format") == SHARDED


def listed(spreads: Mapping[str, Spread]) -> dict[str, Any]:
    """What is added to the manifest: for each file, "4+4 0+6" is the block of rows 4 to 8 and columns 0 to 6."""
    rows = {
        key: {
            "dtype": spread.dtype,
            "shape": list(spread.shape),
            PIECES: {
                each.file: " ".join(f"{at}+{length}" for at, length in zip(each.start, each.size, strict=True))
                for each in spread.pieces
            },
        }
        for key, spread in spreads.items()
    }
    return {"format": SHARDED, PIECES: rows}


def spreads_in(manifest: Mapping[str, Any], shown: str) -> dict[str, Spread]:
    """By 'group/name'. Raises BadCheckpoint where pieces are not what makes up a tensor, or lie in files that are not
    the manifest's."""
    try:
        spreads = {str(key): _spread(row) for key, row in manifest[PIECES].items()}
    except (KeyError, AttributeError, TypeError, ValueError):
        raise BadCheckpoint(f"{shown} is not to be trusted: its list of pieces cannot be read.") from None
    for key, spread in spreads.items():
        if trouble := _trouble(spread, manifest["files"]) or _nameless(key):
            raise BadCheckpoint(f"{shown} is not to be trusted: {key} {trouble}.")
    return spreads


def _spread(row: Mapping[str, Any]) -> Spread:
    pieces = tuple(Piece(str(file), *_block(block)) for file, block in row[PIECES].items())
    return Spread(str(row["dtype"]), _lengths(row["shape"]), pieces)


def _block(written: str) -> tuple[Numbers, Numbers]:
    """Where it begins, and how long it is."""
    pairs = [pair.split("+") for pair in written.split()]
    return tuple(int(at) for at, _ in pairs), tuple(int(length) for _, length in pairs)


def _lengths(values: Any) -> Numbers:
    if not all(type(value) is int and value >= 0 for value in values):
        raise ValueError(values)
    return tuple(values)


def _nameless(key: str) -> str:
    """What the optimizer keeps is named by the parameter's number: 'optimizer/3.exp_avg'."""
    group, name = group_of(key)
    number, _, word = name.partition(".")
    return "names no parameter of the optimizer" if group == OPTIMIZER and not (number.isdecimal() and word) else ""


def _trouble(spread: Spread, files: Mapping[str, Any]) -> str:
    """What is wrong with it; nothing: nothing."""
    for piece in spread.pieces:
        if piece.file not in files:
            return f"has a piece in {piece.file}, which is not among the files"
        if math.prod(piece.size) > files[piece.file].get("bytes", 0):  # before anybody makes room for it
            return "has a piece that its file cannot hold"
        if not len(piece.start) == len(piece.size) == len(spread.shape):
            return "has a piece of another number of dimensions"
        if any(
            min(start, size) < 0 or start + size > length
            for start, size, length in zip(piece.start, piece.size, spread.shape, strict=True)
        ):
            return "has a piece that reaches beyond it"
    if spread.count != sum(math.prod(piece.size) for piece in spread.pieces):
        return "is not the sum of its pieces"
    return "" if _fills(spread) else "has two pieces at one place"


def _fills(spread: Spread) -> bool:
    """Is every place in exactly one piece? Then the corners of the pieces, with signs in turn, cancel out to those of
    the whole."""
    # Only along what is cut at all: a tensor of many dimensions has many corners.
    cut = [at for at, length in enumerate(spread.shape) if any(piece.size[at] != length for piece in spread.pieces)]
    corners: Counter[Numbers] = Counter()
    for sign, start, size in [
        (-1, (0,) * len(spread.shape), spread.shape),
        *((1, piece.start, piece.size) for piece in spread.pieces),
    ]:
        for ends in product((0, 1), repeat=len(cut)):
            corners[tuple(start[at] + end * size[at] for at, end in zip(cut, ends, strict=True))] += sign * (-1) ** sum(
                ends
            )
    return not spread.count or not any(corners.values())
