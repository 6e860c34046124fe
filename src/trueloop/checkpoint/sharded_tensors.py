"""Tensors from their pieces: all of them in full, or only the blocks that are needed, from files or from memory."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, final

import safetensors
import torch
from torch import Tensor

from trueloop.checkpoint.sharded import Numbers, Piece, TensorPieces, group_of
from trueloop.errors import BadCheckpoint

__all__ = ["Blocks", "FileBlocks", "MemoryBlocks", "assemble_tensors", "dtype_of", "single_pieces"]


def dtype_of(tensor: TensorPieces, shown: str) -> torch.dtype:
    """Raises BadCheckpoint."""
    dtype = getattr(torch, tensor.dtype, None)
    if not isinstance(dtype, torch.dtype):
        raise BadCheckpoint(f"{shown} names a dtype that this torch does not have: {tensor.dtype!r}.")
    return dtype


def assemble_tensors(
    table: Mapping[str, TensorPieces], files: Iterable[tuple[str, Mapping[str, Tensor]]], shown: str
) -> dict[str, dict[str, Tensor]]:
    """Full tensors by group and name, from pairs (file, its tensors), one file at a time."""
    full = {key: torch.empty(tensor.shape, dtype=dtype_of(tensor, shown)) for key, tensor in table.items()}
    inside: dict[str, list[tuple[str, Piece]]] = {}
    for key, tensor in table.items():
        for piece in tensor.pieces:
            inside.setdefault(piece.file, []).append((key, piece))
    for file, tensors in files:
        for key, piece in inside.pop(file, ()):
            block, where = tensors.get(group_of(key)[1]), f"{shown}/{file}"
            full[key][_slices(piece.start, piece.size)] = check_piece(block, piece, full[key].dtype, where, key)
    for file, ((key, _), *_) in inside.items():
        raise BadCheckpoint(f"{shown} is invalid: a piece of {key} should be in {file}, which holds no tensors.")
    groups: dict[str, dict[str, Tensor]] = {}
    for key in sorted(full):
        group, name = group_of(key)
        groups.setdefault(group, {})[name] = full[key]
    return groups


def _slices(start: Numbers, size: Numbers) -> tuple[slice, ...]:
    return tuple(slice(at, at + length) for at, length in zip(start, size, strict=True))


def check_piece(block: Tensor | None, piece: Piece, dtype: torch.dtype, file: str, key: str) -> Tensor:
    """The block, if it matches the manifest. Raises BadCheckpoint."""
    if block is None or tuple(block.shape) != piece.size or block.dtype != dtype:
        what = "nothing" if block is None else f"{block.dtype} of {tuple(block.shape)}"
        raise BadCheckpoint(f"{file} is invalid: for {key} it holds {what}, the manifest says {dtype} of {piece.size}.")
    return block


class Blocks(ABC):
    """A source of blocks of a checkpoint's tensors."""

    @abstractmethod
    def block(self, key: str, piece: Piece, start: Numbers, size: Numbers) -> Tensor:
        """A part of a piece; `start` counts from the beginning of the piece. Raises BadCheckpoint."""


@final
class FileBlocks(Blocks):
    """Reads only the requested blocks from a checkpoint's folder, whose files are verified already."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._opened: dict[str, Any] = {}

    def block(self, key: str, piece: Piece, start: Numbers, size: Numbers) -> Tensor:
        path = self.folder / piece.file
        try:
            if piece.file not in self._opened:
                self._opened[piece.file] = safetensors.safe_open(path, framework="pt")
            held = self._opened[piece.file]
            if not size:
                return torch.as_tensor(held.get_tensor(group_of(key)[1]))
            tensor = held.get_slice(group_of(key)[1])
            if tuple(tensor.get_shape()) != piece.size:
                raise BadCheckpoint(f"{path} is invalid: the size of {key} differs from the manifest.")
            return torch.as_tensor(tensor[_slices(start, size)])
        except (safetensors.SafetensorError, OSError) as error:
            raise BadCheckpoint(f"{path} is not a safetensors file ({error}).") from None


@final
class MemoryBlocks(Blocks):
    """Full tensors by key."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self.tensors = tensors

    def block(self, key: str, piece: Piece, start: Numbers, size: Numbers) -> Tensor:
        return self.tensors[key][_slices(start, size)]


def single_pieces(tensors: Mapping[str, Tensor]) -> dict[str, TensorPieces]:
    """Each tensor as its only piece."""
    table = {}
    for key, value in tensors.items():
        shape, dtype = tuple(value.shape), str(value.dtype).removeprefix("torch.")
        table[key] = TensorPieces(dtype, shape, (Piece("", (0,) * value.ndim, shape),))
    return table
