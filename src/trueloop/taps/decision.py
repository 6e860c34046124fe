"""Patches argmax, max over a dimension, and topk, which turn scores into choices."""

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor

from trueloop.taps.calls import DecisionCall
from trueloop.taps.tap import Patch, Tap, is_unwatched

__all__ = ["DecisionTap"]

_FUNCTIONS: Final = ("argmax", "max", "topk")


class DecisionTap(Tap):
    topics = ("decision_made",)

    def install(self) -> None:
        self.patches = [Patch(owner, name, self._wrap) for owner in (torch, Tensor) for name in _FUNCTIONS]

    def _wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        bus, function = self.bus, original.__name__

        def decide(*args: Any, **kwargs: Any) -> Any:
            output = original(*args, **kwargs)
            if is_unwatched(bus) or bus.call is not None:  # inside a model it is part of the model
                return output
            scores = args[0] if args else kwargs.get("input")
            if isinstance(scores, Tensor) and (function != "max" or isinstance(output, tuple)):
                bus.publish("decision_made", DecisionCall(function, scores))
            return output

        return decide
