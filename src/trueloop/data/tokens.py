"""A memory-mapped file of tokens: integers of one size, one after another. A text file is one too, of bytes.

    tokens = Tokens(Path("train.bin"), block=1024, dtype="uint16")
    tokens.fetch(numbers)       # inputs [N, 1024], and targets shifted by one

A sample is a block; samples start `stride` tokens apart, so that an epoch sees each start once. The file is never
loaded completely, unless it moves to a device.
"""

from pathlib import Path
from typing import Any, Final, Literal, final

import numpy as np
import torch
from torch import Tensor

from trueloop.data.source import Batch, Source
from trueloop.errors import BadData

__all__ = ["Tokens", "tokens_in"]

TokenType = Literal["uint8", "uint16", "uint32"]
SIZES: Final[dict[TokenType, int]] = {"uint8": 1, "uint16": 2, "uint32": 4}  # Bytes of a token
# torch cannot gather uint16 and uint32 everywhere: they are read as signed, and the sign is masked off afterwards.
SIGNED: Final[dict[int, np.dtype[Any]]] = {1: np.dtype("u1"), 2: np.dtype("<i2"), 4: np.dtype("<i4")}


def tokens_in(path: Path, dtype: TokenType = "uint8") -> int:
    """Number of tokens in a file. Raises BadData if its size is not a multiple of the token size."""
    try:
        length = path.stat().st_size
    except OSError as error:
        raise BadData(f"{path} cannot be read ({error.strerror}). Nothing was trained.") from None
    size = SIZES[dtype]
    if length % size:
        raise BadData(
            f"{path} has {length:,} bytes, which is not a multiple of {size} ({dtype} tokens): {length % size} "
            "left over. Nothing was trained: the file is truncated, or its tokens have a different dtype."
        )
    return length // size


@final
class Tokens(Source):
    """Blocks of `block` tokens between token `first` and `last` of a file, `stride` apart (None: no overlap)."""

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
            count = max(0, self.last - self.first)
            raise BadData(
                f"{path} holds {count:,} tokens from {self.first:,} to {self.last:,}; one block needs {block + 1:,} "
                f"({block:,} and the next one). Nothing was trained: use a smaller block, or more text."
            )
        self._tokens: Tensor | None = None

    def __len__(self) -> int:
        return (self.last - self.first - self.block - 1) // self.stride + 1

    def fetch(self, numbers: Tensor) -> Batch:
        if self._tokens is None:
            self._tokens = self._mapped()
        return _blocks(self._tokens, numbers * self.stride, self.block)

    def resident(self, device: torch.device) -> Source:
        if device.type == "cpu":
            return self  # the system caches the pages that are used
        return _OnDevice(self._mapped().to(device), len(self), self.block, self.stride)

    def nbytes(self) -> int:
        return (self.last - self.first) * SIZES[self.dtype]

    def _mapped(self) -> Tensor:
        size = SIZES[self.dtype]
        # Copy-on-write, though nobody writes: torch warns about read-only memory.
        mapped = np.memmap(self.path, SIGNED[size], mode="c", offset=self.first * size, shape=(self.last - self.first,))
        return torch.from_numpy(mapped)

    def __getstate__(self) -> dict[str, Any]:
        """Workers map the file again instead of pickling all of it."""
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
