"""The order of the samples on the device. A thread computes the next epoch's order while this one is trained."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import final

import torch
from torch import Tensor

__all__ = ["DeviceOrders"]


@final
class DeviceOrders:
    """Of one epoch and the next; earlier ones are dropped, and computed again if the run goes back."""

    def __init__(self, order_of: Callable[[int], Tensor], device: torch.device) -> None:
        self._order_of, self.device = order_of, device
        self._ready: dict[int, Tensor] = {}
        self._coming: dict[int, Future[Tensor]] = {}

    def of(self, epoch: int) -> Tensor:
        """Waits for the thread if it is still computing this one; not for the device."""
        if epoch not in self._ready:
            coming = self._coming.pop(epoch, None)
            order = self._computed(epoch) if coming is None else coming.result()
            self._ready = {known: kept for known, kept in self._ready.items() if known == epoch - 1}
            self._ready[epoch] = order.to(self.device, non_blocking=True)
        return self._ready[epoch]

    def prepare(self, epoch: int) -> None:
        """Start computing it."""
        if epoch in self._ready or epoch in self._coming:
            return
        thread = ThreadPoolExecutor(1, thread_name_prefix="trueloop-order")
        self._coming = {epoch: thread.submit(self._computed, epoch)}
        thread.shutdown(wait=False)  # it ends when the order is computed

    def _computed(self, epoch: int) -> Tensor:
        order = self._order_of(epoch)
        return order.pin_memory() if self.device.type == "cuda" else order  # so that its copy does not block the host
