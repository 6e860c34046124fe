"""Models that are moved: to(), cuda(), cpu(), and the changes of type. Rare calls, unless somebody makes them in every
step."""

from __future__ import annotations

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
            # Inside a call of a model it is the model's own way of working: layers that are brought in when they are
            # needed.
            if is_unwatched(bus) or bus.call is not None:
                return original(module, *args, **kwargs)
            caller = sys._getframe(1)  # a library that moves a model knows why
            if not is_users(caller.f_code.co_filename):
                return original(module, *args, **kwargs)
            before, began = _whereabouts(module), perf_counter_ns()
            result = original(module, *args, **kwargs)
            took = perf_counter_ns() - began
            bus.publish(
                "module_moved", ModuleMove(module, function, _whereabouts(module) != before, place_in(caller), took)
            )
            return result

        return moved


def _whereabouts(module: nn.Module) -> tuple[torch.device, torch.dtype] | None:
    first = next(module.parameters(), None)
    return None if first is None else (first.device, first.dtype)
