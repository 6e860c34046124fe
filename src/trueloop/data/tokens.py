"""A file of tokens, mapped into memory: nothing but numbers of one size, one after another. Text itself is such a file,
of bytes.

    tokens = Tokens(Path("train.bin"), block=1024, dtype="uint16")
    tokens.fetch(numbers)       # inputs [N, 1024], and targets: the same moved by one

A sample is a block; samples begin `stride` tokens apart, so that an epoch sees each beginning once. The file is never
read whole, unless it moves to a device.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal, final

import numpy as np
import torch
from torch import Tensor

from trueloop.data.source import Batch, Source
from trueloop.errors import BadData

__all__ = ["Tokens", "tokens_in"]

TokenType = Literal["uint8", "uint16", "uint32"]
SIZES: Final[dict[TokenType, int]] = {"uint8": 1, "uint16": 2, "uint32": 4}
"""Bytes of a token."""
SIGNED: Final[dict[int, np.dtype[Any]]] = {1: np.dtype("u1"), 2: np.dtype("<i2"), 4: np.dtype("<i4")}
"""Torch can gather these everywhere, but not uint16 and uint32: they are taken as signed, and the sign is masked away
after."""


def tokens_in(path: Path, dtype: TokenType = "uint8") -> int:
    """How many tokens a file holds. Raises BadData if it does not hold a whole number of them."""
    try:
        length = path.stat().st_size
    except OSError as error:
        raise BadData(f"{path} cannot be read ({error.strerror}). Nothing was trained.") from None
    size = SIZES[dtype]
    if length % size:
        raise BadData(
            f"{path} has {length:,} bytes, which {dtype} tokens of {size} bytes do not divide: {length % size} are left over. "
            "Nothing was trained: the file is cut short, or its tokens are of another size."
        )
    return length // size


@final
class Tokens(Source):
    """Blocks of `block` tokens of a part of a file: from token `first` up to `last`, beginning `stride` apart (None:
    side by side)."""

    def __init__(
        self,
        path: Path,
        block: int,
        *,
        dtype: TokenType = "uint8",
        first: int = 0,
        last: int | None = None,
        stride: int | None = None,
    ) -> None:
        there = tokens_in(path, dtype)
        self.path, self.block, self.dtype = path, block, dtype
        self.first, self.last = first, there if last is None else min(last, there)
        self.stride = stride or block
        if self.last - self.first < block + 1:
            raise BadData(
                f"{path} holds {max(0, self.last - self.first):,} tokens from {self.first:,} to {self.last:,}, and one block takes "
                f"{block + 1:,} ({block:,} and the one that follows). Nothing was trained: use a smaller block, or more text."
            )
        self._tokens: Tensor | None = None

    def __len__(self) -> int:
        return (self.last - self.first - self.block - 1) // self.stride + 1

    def fetch(self, numbers: Tensor) -> Batch:
        if self._tokens is None:
            self._tokens = self._mapped()
        return _blocks(self._tokens, numbers * self.stride, self.block)

    def resident(self, device: torch.device) -> Source:
        # On the CPU the map is as near as memory: the system keeps what is used.
        return (
            self if device.type == "cpu" else _OnDevice(self._mapped().to(device), len(self), self.block, self.stride)
        )

    def nbytes(self) -> int:
        return (self.last - self.first) * SIZES[self.dtype]

    def _mapped(self) -> Tensor:
        size = SIZES[self.dtype]
        # Copy-on-write, though nobody writes: torch takes no memory that it could not write to without a warning.
        mapped = np.memmap(self.path, SIGNED[size], mode="c", offset=self.first * size, shape=(self.last - self.first,))
        return torch.from_numpy(mapped)

    def __getstate__(self) -> dict[str, Any]:
        """For workers: the map is opened again there; pickled it would be the whole file."""
        return {**self.__dict__, "_tokens": None}


@final
class _OnDevice(Source):
    """The same blocks, gathered from one tensor on the device."""

    def __init__(self, tokens: Tensor, length: int, block: int, stride: int) -> None:
        self.tokens, self.length, self.block, self.stride = tokens, length, block, stride

    def __len__(self) -> int:
        return self.length

    def fetch(self, numbers: Tensor) -> Batch:
        return _blocks(self.tokens, numbers * self.stride, self.block)


def _blocks(tokens: Tensor, starts: Tensor, block: int) -> Batch:
    within = torch.arange(block + 1, device=tokens.device)
    taken = tokens[starts[:, None] + within].long()
    if tokens.dtype != torch.uint8:
        taken &= (1 << 8 * tokens.element_size()) - 1
    return Batch(taken[:, :-1], taken[:, 1:])
