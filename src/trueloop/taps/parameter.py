"""Patches register_parameter, which `module.weight = parameter` calls too. Publishes even while the bus sleeps."""

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from trueloop.taps.calls import ParameterSet
from trueloop.taps.place import here
from trueloop.taps.tap import Patch, Tap
from trueloop.torch_private.modules import LOAD_FRAME

__all__ = ["ParameterTap"]


class ParameterTap(Tap):
    topics = ("parameter_set",)

    def install(self) -> None:
        self.patches = [Patch(nn.Module, "register_parameter", self._wrap)]

    def _wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        bus = self.bus

        def register_parameter(module: nn.Module, name: str, param: Any) -> None:
            original(module, name, param)
            if param is not None and not torch.compiler.is_compiling() and not bus.busy:
                bus.publish("parameter_set", ParameterSet(module, name, param, here(2), _is_loading()))

        return register_parameter


def _is_loading() -> bool:
    """`load_state_dict(assign=True)` sets attributes, as a user does."""
    return sys._getframe(3).f_code.co_name == LOAD_FRAME
