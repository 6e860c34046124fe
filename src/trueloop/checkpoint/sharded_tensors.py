"""Tensors from their pieces: all of them in full, or only the blocks that are needed, from files or from memory."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import final

import torch
from torch import Tensor

from trueloop.checkpoint.safetensors_header import Entry, entries_of
from trueloop.checkpoint.safetensors_writer import DTYPES
from trueloop.checkpoint.sharded import Numbers, Piece, TensorPieces, group_of
from trueloop.errors import BadCheckpoint
from trueloop.trust.files import open_regular

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
    """Reads only the rows of the requested blocks from a checkpoint's folder, whose files are verified already. Not by
    the library, whose mapping of a file counts as this process's own memory, in full."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._headers: dict[str, dict[str, Entry]] = {}

    def block(self, key: str, piece: Piece, start: Numbers, size: Numbers) -> Tensor:
        path = self.folder / piece.file
        if piece.file not in self._headers:
            self._headers[piece.file] = {entry.name: entry for entry in entries_of(path)}
        entry = self._headers[piece.file].get(group_of(key)[1])
        dtype = None if entry is None else DTYPES.get(entry.dtype)
        if entry is None or dtype is None or entry.end - entry.start != entry.count * dtype.itemsize:
            raise BadCheckpoint(f"{path} is not a safetensors file with {key}.")
        if entry.shape != piece.size:
            raise BadCheckpoint(f"{path} is invalid: the size of {key} differs from the manifest.")
        if not math.prod(size):
            return torch.empty(size, dtype=dtype)
        rows, row = (start[0], size[0]) if size else (0, 1), math.prod(piece.size[1:])
        held = torch.empty(rows[1] * row, dtype=dtype)
        _read_into(held.view(torch.uint8).numpy().data, path, entry.start + rows[0] * row * dtype.itemsize)
        return held.view(rows[1], *piece.size[1:])[(slice(None), *_slices(start[1:], size[1:]))].reshape(size)


def _read_into(room: memoryview, path: Path, offset: int) -> None:
    try:
        with open_regular(path) as file:
            file.seek(offset)
            found = file.readinto(room)  # type: ignore[attr-defined]  # a BufferedReader
    except OSError as error:
        raise BadCheckpoint(f"{path} cannot be read ({error.strerror}).") from None
    if found != len(room):
        raise BadCheckpoint(f"{path} is damaged: it ends early.")


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
