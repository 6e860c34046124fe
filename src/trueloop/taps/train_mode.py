"""Patches Module.train and eval; what was asked for is published once, for the module they were called on, even while
the bus sleeps."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from trueloop.event import Place
from trueloop.taps.bus import Bus
from trueloop.taps.calls import ModeChange
from trueloop.taps.place import here
from trueloop.taps.tap import Patch, Tap

__all__ = ["TrainModeTap"]


class TrainModeTap(Tap):
    topics = ("mode_set",)

    def __init__(self, bus: Bus, before: Callable[[Place | None], None]) -> None:
        super().__init__(bus)
        self._before = before  # Called before an eval() is published: the budget may wake the taps
        self._inside = False

    def install(self) -> None:
        self.patches = [Patch(nn.Module, "train", self._wrap), Patch(nn.Module, "eval", self._wrap_eval)]

    def _wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def train(module: nn.Module, mode: bool = True) -> Any:
            if torch.compiler.is_compiling() or self._inside or self.bus.busy:
                return original(module, mode)
            return self._set(partial(original, module, mode), module, mode)

        return train

    def _wrap_eval(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """A class may override `train`, and then only this shows that eval mode was asked for."""

        def eval(module: nn.Module) -> Any:
            if torch.compiler.is_compiling() or self._inside or self.bus.busy:
                return original(module)
            return self._set(partial(original, module), module, False)

        return eval

    def _set(self, call: Callable[[], Any], module: nn.Module, mode: bool) -> Any:
        self._inside = True
        try:
            result = call()
        finally:
            self._inside = False
        place = here(3)
        if not mode:
            self._before(place)
        self.bus.publish("mode_set", ModeChange(module, mode, place))
        return result
