"""A copy of live values in host memory, taken between two steps, so that training continues while it is written.

A snapshot holds only tensors and plain values, because a checkpoint is read without unpickling classes. A value that
could not be read back is refused when it is saved.
"""

from collections.abc import Mapping
from typing import Any, Final, final

import numpy as np
import torch
from torch import Tensor

from trueloop.errors import CannotSave

__all__ = ["Snapshot"]

# Exactly these types, not subclasses: an IntEnum is pickled as its class
_PLAIN: Final = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device)
ROOM: Final = 0.5  # Share of a device's free memory that a second copy may take during a save


@final
class Snapshot:
    """Copies values. Copies from a CUDA device arrive later, on a separate stream: call `wait` before reading them."""

    def __init__(self) -> None:
        self._pending: list[tuple[Tensor, Tensor]] = []
        self._arrivals: list[torch.cuda.Event] = []

    def of(self, value: Any, place: str) -> Any:
        """A copy made of host tensors and plain values; `place` names the value in error messages."""
        if isinstance(value, Tensor):
            if getattr(value, "device_mesh", None) is not None:
                raise CannotSave(
                    f"{place} is sharded over processes (a DTensor), so one process cannot save it alone. `trueloop "
                    "train` with parallel=fsdp or tp saves sharded weights; in your own loop, call value.full_tensor() "
                    "on all processes and save the result."
                )
            return self._tensor(value.detach())
        if isinstance(value, Mapping):
            of, items = f"a key of {place}", value.items()
            return {self.of(key, of): self.of(item, f"{place}[{key!r}]") for key, item in items}
        if isinstance(value, (list, tuple, set)):
            copies = [self.of(item, f"{place}[{number}]") for number, item in enumerate(value)]
            return copies if isinstance(value, list) else set(copies) if isinstance(value, set) else tuple(copies)
        return _plain(value, place)

    def _tensor(self, tensor: Tensor) -> Tensor:
        if tensor.device.type != "cuda":
            return tensor.to("cpu", copy=True)  # keeps strides: fused optimizers need states strided like the weights
        copy = torch.empty_like(tensor, device="cpu", pin_memory=True)
        self._pending.append((copy, tensor))
        return copy

    def send(self) -> None:
        """Start all copies from devices. The host does not wait; the device waits only if memory is short."""
        for device in {source.device for _, source in self._pending}:
            pairs = [(copy, source) for copy, source in self._pending if source.device == device]
            unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
            room = sum(source.nbytes for _, source in pairs) < ROOM * (torch.cuda.mem_get_info(device)[0] + unused)
            if room:
                # A fast copy on the device first: the next step may change the originals during the transfer.
                pairs = [(copy, source.clone()) for copy, source in pairs]
                self._pending += pairs  # keeps the clones alive until they are transferred
            training = torch.cuda.current_stream(device)
            copies = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
            copies.wait_stream(training)
            with torch.cuda.stream(copies):
                for copy, source in pairs:
                    copy.copy_(source, non_blocking=True)
                self._arrivals.append(copies.record_event())
            if not room:
                training.wait_stream(copies)  # the device waits before it changes the originals; the host does not

    def wait(self) -> None:
        """Wait until all copies have arrived. Called by the writing thread."""
        for arrival in self._arrivals:
            arrival.synchronize()
        self._pending.clear()
        self._arrivals.clear()


def _plain(value: Any, place: str) -> Any:
    if type(value) in _PLAIN:
        return value
    if isinstance(value, np.generic):
        return _plain(value.item(), place)
    for kind in (int, float, str):
        if isinstance(value, kind):
            return kind(value)
    raise CannotSave(
        f"{place} is a {type(value).__module__}.{type(value).__qualname__}, which a checkpoint cannot hold: "
        "to be safe to read, it may hold only tensors, numbers, strings, lists and dicts."
    )
