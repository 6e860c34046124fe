"""Tensors out of their pieces: all of them whole in one process, or just what is asked for, from files or from
memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, final

import safetensors
import torch
from torch import Tensor

from trueloop.checkpoint.sharded import Piece, Spread, group_of
from trueloop.errors import BadCheckpoint

__all__ = ["Blocks", "InFiles", "InMemory", "dtype_of", "put_together", "whole_spreads"]


def dtype_of(spread: Spread, shown: str) -> torch.dtype:
    """Raises BadCheckpoint."""
    found = getattr(torch, spread.dtype, None)
    if not isinstance(found, torch.dtype):
        raise BadCheckpoint(f"{shown} names a format of numbers that this torch does not have: {spread.dtype!r}.")
    return found


def put_together(
    spreads: Mapping[str, Spread], files: Iterable[tuple[str, Mapping[str, Tensor]]], shown: str
) -> dict[str, dict[str, Tensor]]:
    """Full tensors by group and name, from (file, what it holds), one file at a time."""
    wholes = {key: torch.empty(spread.shape, dtype=dtype_of(spread, shown)) for key, spread in spreads.items()}
    inside: dict[str, list[tuple[str, Piece]]] = {}
    for key, spread in spreads.items():
        for piece in spread.pieces:
            inside.setdefault(piece.file, []).append((key, piece))
    for file, tensors in files:
        for key, piece in inside.pop(file, ()):
            found = fitting(tensors.get(group_of(key)[1]), piece, wholes[key].dtype, f"{shown}/{file}", key)
            wholes[key][tuple(slice(at, at + length) for at, length in zip(piece.start, piece.size, strict=True))] = (
                found
            )
    for file, ((key, _), *_) in inside.items():
        raise BadCheckpoint(
            f"{shown} is not to be trusted: a piece of {key} should be in {file}, which holds no tensors."
        )
    groups: dict[str, dict[str, Tensor]] = {}
    for key in sorted(wholes):
        group, name = group_of(key)
        groups.setdefault(group, {})[name] = wholes[key]
    return groups


def fitting(found: Tensor | None, piece: Piece, dtype: torch.dtype, file: str, key: str) -> Tensor:
    """The tensor, if it is what the manifest says. Raises BadCheckpoint."""
    if found is None or tuple(found.shape) != piece.size or found.dtype != dtype:
        what = "nothing" if found is None else f"{found.dtype} of {tuple(found.shape)}"
        raise BadCheckpoint(
            f"{file} is not to be trusted: for {key} it holds {what}, the manifest names {dtype} of {piece.size}."
        )
    return found


class Blocks(ABC):
    """Where blocks of a checkpoint's tensors can be had."""

    @abstractmethod
    def block(self, key: str, piece: Piece, start: tuple[int, ...], size: tuple[int, ...]) -> Tensor:
        """A part of a piece: `start` counts from where the piece begins. Raises BadCheckpoint."""


@final
class InFiles(Blocks):
    """Of a checkpoint's folder, once its files have been verified: only what is asked for is read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._opened: dict[str, Any] = {}

    def block(self, key: str, piece: Piece, start: tuple[int, ...], size: tuple[int, ...]) -> Tensor:
        path = self.folder / piece.file
        try:
            if piece.file not in self._opened:
                self._opened[piece.file] = safetensors.safe_open(path, framework="pt")
            held = self._opened[piece.file]
            if not size:
                return torch.as_tensor(held.get_tensor(group_of(key)[1]))
            found = held.get_slice(group_of(key)[1])
            if tuple(found.get_shape()) != piece.size:
                raise BadCheckpoint(
                    f"{path} is not to be trusted: its {key} is not of the size that the manifest names."
                )
            return torch.as_tensor(found[tuple(slice(at, at + length) for at, length in zip(start, size, strict=True))])
        except (safetensors.SafetensorError, OSError) as error:
            raise BadCheckpoint(f"{path} is no safetensors file ({error}).") from None


@final
class InMemory(Blocks):
    """Full tensors, by key."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self.tensors = tensors

    def block(self, key: str, piece: Piece, start: tuple[int, ...], size: tuple[int, ...]) -> Tensor:
        return self.tensors[key][tuple(slice(at, at + length) for at, length in zip(start, size, strict=True))]


def whole_spreads(tensors: Mapping[str, Tensor]) -> dict[str, Spread]:
    """Each tensor as its own only piece."""
    return {
        key: Spread(
            str(value.dtype).removeprefix("torch."),
            tuple(value.shape),
            (Piece("", (0,) * value.ndim, tuple(value.shape)),),
        )
        for key, value in tensors.items()
    }
