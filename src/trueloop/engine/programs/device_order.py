"""The order of the samples, on the device: that of the next epoch is made by another thread while this one is
trained."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import final

import torch
from torch import Tensor

__all__ = ["DeviceOrders"]


@final
class DeviceOrders:
    """Of one epoch and the one after it; earlier ones are forgotten, and made again if the run goes back."""

    def __init__(self, make: Callable[[int], Tensor], device: torch.device) -> None:
        self._make, self.device = make, device
        self._here: dict[int, Tensor] = {}
        self._coming: dict[int, Future[Tensor]] = {}

    def of(self, epoch: int) -> Tensor:
        """Waits for the thread, if it is still at work on this one; not for the device."""
        if epoch not in self._here:
            coming = self._coming.pop(epoch, None)
            order = self._made(epoch) if coming is None else coming.result()
            self._here = {known: kept for known, kept in self._here.items() if known == epoch - 1}
            self._here[epoch] = order.to(self.device, non_blocking=True)
        return self._here[epoch]

    def prepare(self, epoch: int) -> None:
        """It will be wanted soon."""
        if epoch in self._here or epoch in self._coming:
            return
        thread = ThreadPoolExecutor(1, thread_name_prefix="trueloop-order")
        self._coming = {epoch: thread.submit(self._made, epoch)}
        thread.shutdown(wait=False)  # it ends when the order is made

    def _made(self, epoch: int) -> Tensor:
        order = self._make(epoch)
        return (
            order.pin_memory() if self.device.type == "cuda" else order
        )  # so that its copy does not wait for the steps before it
