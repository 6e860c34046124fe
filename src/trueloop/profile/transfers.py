"""Times copies to a device and reads from it, for the clock. Patches nothing in a CPU-only build of torch."""

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, Final, final

import torch
from torch import Tensor

from trueloop.profile.clock import Clock
from trueloop.taps.bus import Bus
from trueloop.taps.tap import Patch, is_unwatched

__all__ = ["TransferTimer"]

READERS: Final = ("item", "cpu", "tolist", "__bool__", "__float__", "__int__")
"""Methods that return a value to the host, which waits for it."""


@final
class TransferTimer:
    """Installed after the warm-up: a warning that PyTorch prints once, from C++, must name the user's frame."""

    def __init__(self, bus: Bus, clock: Clock) -> None:
        self.bus, self.clock = bus, clock
        self._patches: list[Patch] = []

    def install(self) -> None:
        # current_accelerator() says what torch was built for, not what the machine has.
        if torch.accelerator.current_accelerator() is not None and not self._patches:
            self._patches = [Patch(Tensor, name, self._wrap_reader) for name in READERS]
            self._patches += [Patch(Tensor, name, self._wrap_mover) for name in ("to", "cuda")]

    def remove(self) -> None:
        while self._patches:
            self._patches.pop().undo()

    def _quiet(self) -> bool:
        return is_unwatched(self.bus) or self.bus.in_step > 0

    def _wrap_reader(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def read(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
            if self._quiet() or tensor.is_cpu or tensor.is_meta:
                return original(tensor, *args, **kwargs)
            began = perf_counter_ns()
            value = original(tensor, *args, **kwargs)
            self.clock.read(began)
            return value

        return read

    def _wrap_mover(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def move(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
            if self._quiet() or tensor.is_meta:
                return original(tensor, *args, **kwargs)
            began = perf_counter_ns()
            moved = original(tensor, *args, **kwargs)
            if tensor.is_cpu != moved.is_cpu:
                (self.clock.copied if tensor.is_cpu else self.clock.read)(began)
            return moved

        return move
