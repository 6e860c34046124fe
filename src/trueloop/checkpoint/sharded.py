"""The sharded checkpoint format: each process writes its shards, and the manifest lists which piece of which tensor is
in which file.

FOLDER/step-00000120/manifest.json               format 2, with a table of pieces
                     model-0-of-2.safetensors    weights held by rank 0 of 2; likewise ema-, optimizer-
                     model-1-of-2.safetensors
                     training.pt                 counters, random states: small, from rank 0

The table is JSON protected by the manifest's hash. Nothing is unpickled. No torch.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from trueloop.errors import BadCheckpoint

__all__ = ["OPTIMIZER", "PIECES", "Piece", "TensorPieces", "group_of", "is_sharded", "piece_table", "read_piece_table"]

SHARDED: Final = 2  # The manifest's format number
PIECES: Final = "pieces"
OPTIMIZER: Final = "optimizer"  # The group of the optimizer's tensors; every other group is a model

Numbers = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """A block of a tensor: its file, its offset in the tensor, and its size along each dimension."""

    file: str
    start: Numbers
    size: Numbers


@dataclass(frozen=True, slots=True)
class TensorPieces:
    """A tensor and the location of its pieces."""

    dtype: str  # torch's name: float32
    shape: Numbers
    pieces: tuple[Piece, ...]

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


def file_of(group: str, rank: int, world: int) -> str:
    return f"{group}-{rank}-of-{world}.safetensors"


def group_of(key: str) -> tuple[str, str]:
    """'model/encoder.weight' -> ('model', 'encoder.weight')."""
    group, _, name = key.partition("/")
    return group, name


def is_sharded(manifest: Mapping[str, Any]) -> bool:
    return manifest.get("format") == SHARDED


def piece_table(tensors: Mapping[str, TensorPieces]) -> dict[str, Any]:
    """Manifest entries. For each file, "4+4 0+6" is the block of rows 4 to 8 and columns 0 to 6."""
    rows: dict[str, Any] = {}
    for key, tensor in tensors.items():
        blocks = {piece.file: zip(piece.start, piece.size, strict=True) for piece in tensor.pieces}
        pieces = {file: " ".join(f"{at}+{length}" for at, length in block) for file, block in blocks.items()}
        rows[key] = {"dtype": tensor.dtype, "shape": list(tensor.shape), PIECES: pieces}
    return {"format": SHARDED, PIECES: rows}


def read_piece_table(manifest: Mapping[str, Any], shown: str) -> dict[str, TensorPieces]:
    """By 'group/name'. Raises BadCheckpoint if pieces do not make up their tensor or are in unlisted files."""
    try:
        tensors = {str(key): _tensor_pieces(row) for key, row in manifest[PIECES].items()}
    except (KeyError, AttributeError, TypeError, ValueError):
        raise BadCheckpoint(f"{shown} is invalid: its table of pieces cannot be read.") from None
    for key, tensor in tensors.items():
        if problem := _problem(tensor, manifest["files"]) or _key_problem(key):
            raise BadCheckpoint(f"{shown} is invalid: {key} {problem}.")
    return tensors


def _tensor_pieces(row: Mapping[str, Any]) -> TensorPieces:
    pieces = []
    for file, block in row[PIECES].items():
        pairs = [pair.split("+") for pair in block.split()]
        start, size = tuple(int(at) for at, _ in pairs), tuple(int(length) for _, length in pairs)
        pieces.append(Piece(str(file), start, size))
    if not all(type(length) is int and length >= 0 for length in row["shape"]):
        raise ValueError(row["shape"])
    return TensorPieces(str(row["dtype"]), tuple(row["shape"]), tuple(pieces))


def _key_problem(key: str) -> str:
    """Optimizer tensors are named by the parameter's number: 'optimizer/3.exp_avg'."""
    group, name = group_of(key)
    number, _, word = name.partition(".")
    return "names no parameter of the optimizer" if group == OPTIMIZER and not (number.isdecimal() and word) else ""


def _problem(tensor: TensorPieces, files: Mapping[str, Any]) -> str:
    """What is wrong with the pieces; empty if they are valid."""
    for piece in tensor.pieces:
        if piece.file not in files:
            return f"has a piece in {piece.file}, which is not among the files"
        if math.prod(piece.size) > files[piece.file].get("bytes", 0):  # checked before any allocation
            return "has a piece that is larger than its file"
        if not len(piece.start) == len(piece.size) == len(tensor.shape):
            return "has a piece with a different number of dimensions"
        spans = zip(piece.start, piece.size, tensor.shape, strict=True)
        if any(min(start, size) < 0 or start + size > length for start, size, length in spans):
            return "has a piece outside its shape"
    if tensor.count != sum(math.prod(piece.size) for piece in tensor.pieces):
        return "is not the sum of its pieces"
    return "" if _fills(tensor) else "has overlapping pieces"


def _fills(tensor: TensorPieces) -> bool:
    """Whether every element is in exactly one piece: then the alternating sums of all corners cancel out."""
    # Only along the dimensions that are cut: a tensor of many dimensions has many corners.
    cut = [at for at, length in enumerate(tensor.shape) if any(piece.size[at] != length for piece in tensor.pieces)]
    corners: Counter[Numbers] = Counter()
    blocks = [(1, piece.start, piece.size) for piece in tensor.pieces]
    for sign, start, size in [(-1, (0,) * len(tensor.shape), tensor.shape), *blocks]:
        for ends in product((0, 1), repeat=len(cut)):
            corner = tuple(start[at] + end * size[at] for at, end in zip(cut, ends, strict=True))
            corners[corner] += sign * (-1) ** sum(ends)
    return not tensor.count or not any(corners.values())
