"""Numbers that the host reads later, while the device continues with its work."""

from typing import final

import torch
from torch import Tensor

__all__ = ["DeferredRead"]


@final
class DeferredRead:
    """A copy to the host that starts at construction. Later work on the device does not change it."""

    def __init__(self, numbers: Tensor) -> None:
        """No other code may write to `numbers` afterwards."""
        self._copy = numbers.to("cpu", non_blocking=True)
        self._arrived: torch.cuda.Event | None = None
        if numbers.is_cuda:
            self._arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._arrived.record(torch.cuda.current_stream(numbers.device))

    def values(self) -> list[float]:
        """Waits for the copy."""
        if self._arrived is not None:
            self._arrived.synchronize()
        numbers: list[float] = self._copy.tolist()
        return numbers
