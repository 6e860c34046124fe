"""A copy of live values in the host's memory, taken between two steps, so that the training goes on while it is
written.

What comes out holds nothing but tensors and plain values: a checkpoint must be read without unpickling anybody's
classes, so a value that could not be read back is refused when it is saved, not when it is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, final

import numpy as np
import torch
from torch import Tensor

from trueloop.errors import CannotSave

__all__ = ["Snapshot"]

_PLAIN: Final = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device)
"""Exactly these, not classes derived from them: an IntEnum is pickled as its class."""
ROOM: Final = 0.5
"""The share of a device's free memory that a second copy may take for the time of a save."""


@final
class Snapshot:
    """Takes copies. Those of a CUDA device arrive later, on a stream of their own: `wait` before reading them."""

    def __init__(self) -> None:
        self._coming: list[tuple[Tensor, Tensor]] = []
        self._arrivals: list[torch.cuda.Event] = []

    def of(self, value: Any, place: str) -> Any:
        """The same value, of tensors in the host's memory and plain values; `place` names it in a refusal."""
        if isinstance(value, Tensor):
            _refuse_spread(value, place)
            return self._tensor(value.detach())
        if isinstance(value, Mapping):
            return {
                self.of(key, f"a key of {place}"): self.of(item, f"{place}[{key!r}]") for key, item in value.items()
            }
        if isinstance(value, (list, tuple, set)):
            items = [self.of(item, f"{place}[{number}]") for number, item in enumerate(value)]
            return items if isinstance(value, list) else set(items) if isinstance(value, set) else tuple(items)
        return _plain(value, place)

    def _tensor(self, tensor: Tensor) -> Tensor:
        if tensor.device.type != "cuda":
            return tensor.to(
                "cpu", copy=True
            )  # strides are kept: fused optimizers want their states laid out as the weights are
        here = torch.empty_like(tensor, device="cpu", pin_memory=True)
        self._coming.append((here, tensor))
        return here

    def send(self) -> None:
        """Start the copies from devices, when all of them are known. Neither the host nor, where there is room, the
        device waits."""
        for device in {there.device for _, there in self._coming}:
            pairs = [(here, there) for here, there in self._coming if there.device == device]
            free = (
                torch.cuda.mem_get_info(device)[0]
                + torch.cuda.memory_reserved(device)
                - torch.cuda.memory_allocated(device)
            )
            room = sum(there.nbytes for _, there in pairs) < ROOM * free
            if room:
                # Copied on the device first, in a blink: the next step may change the originals while the copies
                # travel.
                pairs = [(here, there.clone()) for here, there in pairs]
                self._coming += pairs  # they must live until they have arrived
            training, copies = torch.cuda.current_stream(device), torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
            copies.wait_stream(training)
            with torch.cuda.stream(copies):
                for here, there in pairs:
                    here.copy_(there, non_blocking=True)
                self._arrivals.append(copies.record_event())
            if not room:
                training.wait_stream(copies)  # the device waits before it changes the originals; the host does not

    def wait(self) -> None:
        """Until everything is here. For the thread that writes."""
        for arrival in self._arrivals:
            arrival.synchronize()
        self._coming.clear()
        self._arrivals.clear()


def _refuse_spread(value: Tensor, place: str) -> None:
    if getattr(value, "device_mesh", None) is not None:
        raise CannotSave(
            f"{place} is spread over processes (a DTensor): what one of them holds of it means nothing alone. `trueloop train` with "
            "parallel=fsdp or tp saves such weights in pieces; in a loop of your own, save value.full_tensor(), taken on all processes."
        )


def _plain(value: Any, place: str) -> Any:
    if type(value) in _PLAIN:
        return value
    if isinstance(value, np.generic):
        return _plain(value.item(), place)
    for kind in (int, float, str):
        if isinstance(value, kind):
            return kind(value)
    raise CannotSave(
        f"{place} is a {type(value).__module__}.{type(value).__qualname__}, which no checkpoint can hold: "
        "what is saved must be safe to read, so it is made of tensors, numbers, words, lists and dicts."
    )
