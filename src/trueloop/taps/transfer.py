"""Patches transfers between host and device: values that the user's lines read from it, and tensors copied to it.

The patches exist in a few windows of steps only, and not in the first steps: PyTorch's one-time C++ warnings name the
calling frame, which must be the user's. With a CPU build of torch nothing is patched. Never asks whether a device is
available: the first call decides which devices the process sees, and that is the script's decision.
"""

import sys
from collections.abc import Callable
from time import perf_counter_ns
from types import FrameType
from typing import Any, Final

import torch
from torch import Tensor

from trueloop.taps.bus import Bus
from trueloop.taps.calls import TRANSFER_WINDOWS, DeviceCopy, DeviceRead
from trueloop.taps.place import caller_of, is_users, place_in
from trueloop.taps.tap import Patch, Tap, is_unwatched

__all__ = ["TransferTap"]

_READERS: Final = ("item", "cpu", "tolist", "__bool__", "__float__", "__int__", "__repr__", "__format__")
_WATCHED: Final = frozenset(step for window in TRANSFER_WINDOWS for step in window)


class TransferTap(Tap):
    topics = ("device_read", "device_copied")

    def install(self) -> None:
        """Nothing is patched before the first window."""

    def window_changed(self) -> None:
        if self.bus.step not in _WATCHED:
            self.remove()
        elif torch.accelerator.current_accelerator() is not None:  # the build of torch, not the hardware
            self._patch()

    def _patch(self) -> None:
        if self.bus.has_subscribers("device_read"):
            self.patches += [Patch(Tensor, name, self._wrap_reader) for name in _READERS]
        self.patches += [Patch(Tensor, name, self._wrap_mover) for name in ("to", "cuda")]

    def _wrap_reader(self, original: Callable[..., Any]) -> Callable[..., Any]:
        bus, function = self.bus, original.__name__

        def read(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
            if bus.step not in _WATCHED or is_unwatched(bus) or tensor.is_cpu or tensor.is_meta:
                return original(tensor, *args, **kwargs)
            caller = caller_of(sys._getframe(1))  # skip a library's own reads
            device, began = tensor.device.type, perf_counter_ns()
            value = original(tensor, *args, **kwargs)
            if _waits(bus, caller, args, kwargs):
                waited = perf_counter_ns() - began
                bus.publish("device_read", DeviceRead(function.strip("_"), device, place_in(caller), waited))
            return value

        return read

    def _wrap_mover(self, original: Callable[..., Any]) -> Callable[..., Any]:
        bus = self.bus

        def move(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
            if bus.step not in _WATCHED or is_unwatched(bus) or tensor.is_meta:
                return original(tensor, *args, **kwargs)
            caller, began = caller_of(sys._getframe(1)), perf_counter_ns()
            moved = original(tensor, *args, **kwargs)
            if tensor.is_cpu:
                if not moved.is_cpu:
                    bus.publish("device_copied", DeviceCopy(tensor, moved.device.type))
            elif moved.is_cpu and _waits(bus, caller, args, kwargs):
                waited = perf_counter_ns() - began
                bus.publish("device_read", DeviceRead("to", tensor.device.type, place_in(caller), waited))
            return moved

        return move


def _waits(bus: Bus, caller: FrameType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Did the user's own line wait for the device? Not for a non-blocking copy."""
    non_blocking = kwargs.get("non_blocking") or any(argument is True for argument in args)
    return is_users(caller.f_code.co_filename) and not bus.in_step and not non_blocking
