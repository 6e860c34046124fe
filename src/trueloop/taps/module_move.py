"""Patches the methods that move a module or change its dtype: to(), cuda(), cpu(), half() ..."""

import sys
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, Final

import torch
from torch import nn

from trueloop.taps.calls import ModuleMove
from trueloop.taps.place import is_users, place_in
from trueloop.taps.tap import Patch, Tap, is_unwatched

__all__ = ["ModuleMoveTap"]

_NAMES: Final = ("to", "cuda", "cpu", "half", "float", "double", "bfloat16", "to_empty")


class ModuleMoveTap(Tap):
    topics = ("module_moved",)

    def install(self) -> None:
        self.patches = [Patch(nn.Module, name, self._wrap) for name in _NAMES]

    def _wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        bus, function = self.bus, original.__name__

        def moved(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            # Inside a model call it is the model's own way of working: layers that are loaded on demand.
            if is_unwatched(bus) or bus.call is not None:
                return original(module, *args, **kwargs)
            caller = sys._getframe(1)  # skip a library that moves a model
            if not is_users(caller.f_code.co_filename):
                return original(module, *args, **kwargs)
            before, began = _device_and_dtype(module), perf_counter_ns()
            result = original(module, *args, **kwargs)
            took = perf_counter_ns() - began
            bus.publish(
                "module_moved",
                ModuleMove(module, function, _device_and_dtype(module) != before, place_in(caller), took),
            )
            return result

        return moved


def _device_and_dtype(module: nn.Module) -> tuple[torch.device, torch.dtype] | None:
    first = next(module.parameters(), None)
    return None if first is None else (first.device, first.dtype)
