"""Numbers of a device that the host wants to know, but need not know at once: the device goes on with what it is given
meanwhile."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

__all__ = ["DeferredRead"]


@final
class DeferredRead:
    """Asked where it is made: what the device has been given before counts, and what it is given afterwards does
    not."""

    def __init__(self, numbers: Tensor) -> None:
        """The numbers must be nobody else's: who changes them later changes the answer."""
        self._copy = numbers.to("cpu", non_blocking=True)
        self._arrived: torch.cuda.Event | None = None
        if numbers.is_cuda:
            self._arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._arrived.record(torch.cuda.current_stream(numbers.device))

    def answer(self) -> list[float]:
        """Waits for it."""
        if self._arrived is not None:
            self._arrived.synchronize()
        numbers: list[float] = self._copy.tolist()
        return numbers
