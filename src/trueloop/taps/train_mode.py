"""Patches Module.train and eval; published once, for the module they were called on, even while the bus sleeps."""

from collections.abc import Callable
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
        self.patches = [Patch(nn.Module, "train", self._wrap)]

    def _wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def train(module: nn.Module, mode: bool = True) -> Any:
            if torch.compiler.is_compiling() or self._inside or self.bus.busy:
                return original(module, mode)
            self._inside = True
            try:
                result = original(module, mode)
            finally:
                self._inside = False
            place = here(2)
            if not mode:
                self._before(place)
            self.bus.publish("mode_set", ModeChange(module, mode, place))
            return result

        return train
