"""One long sequence as parallel tracks, for models that carry a state from batch to batch.

    Tracks(tokens, batch=32, length=64)                      32 tracks; targets are the next tokens
    Tracks(signal, batch=8, length=100, targets=labels)      one target per moment

The sequence is cut into `batch` tracks of equal length. Batch n holds moments n * length to (n + 1) * length of every
track: row r continues row r of the batch before. Moments that do not fill a batch are left out.
"""

from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from trueloop.data.source import Batch, Source
from trueloop.errors import BadData

__all__ = ["Tracks"]


@final
class Tracks(Source):
    """Sample number n is row n % batch of batch n // batch: take them with order="sequential"."""

    def __init__(
        self,
        sequence: Tensor | np.ndarray[Any, Any],
        batch: int,
        length: int,
        targets: Tensor | np.ndarray[Any, Any] | None = None,
    ) -> None:
        self.sequence, self.batch, self.length = torch.as_tensor(sequence), batch, length
        self.targets = None if targets is None else torch.as_tensor(targets)
        if batch < 1 or length < 1:
            raise BadData(f"Tracks(batch={batch}, length={length}): both are at least 1. Nothing was trained.")
        if self.targets is not None and len(self.targets) != len(self.sequence):
            counts = f"{len(self.sequence):,} moments and {len(self.targets):,} targets"
            raise BadData(f"There are {counts}: each moment needs one. Nothing was trained.")
        if self.targets is None and self.sequence.is_floating_point():
            raise BadData("Tracks of numbers need targets: Tracks(signal, batch, length, targets=...). Tokens do not.")
        self.moments = len(self.sequence) // batch  # Of a track
        self.steps = (self.moments - (self.targets is None)) // length
        if self.steps < 1:
            raise BadData(
                f"{len(self.sequence):,} moments in {batch} tracks do not fill one batch of length {length}. Nothing "
                "was trained: set a smaller batch or length."
            )

    def __len__(self) -> int:
        return self.steps * self.batch

    def fetch(self, numbers: Tensor) -> Batch:
        first = (numbers % self.batch) * self.moments + (numbers // self.batch) * self.length
        places = first[:, None] + torch.arange(self.length, device=numbers.device)
        if self.targets is not None:
            return Batch(self.sequence[places], self.targets[places])
        return Batch(self.sequence[places].long(), self.sequence[places + 1].long())

    def resident(self, device: torch.device) -> Source:
        if self.sequence.device == device:
            return self
        targets = None if self.targets is None else self.targets.to(device)
        return Tracks(self.sequence.to(device), self.batch, self.length, targets)

    def nbytes(self) -> int:
        return self.sequence.nbytes + (0 if self.targets is None else self.targets.nbytes)
