"""Patches the loss functions of torch.nn.functional, which the nn.XLoss modules call too.

An observer may ask, during a call, for comparisons with predictions (`out.argmax(1) == y`): from then on argmax, round
and == are patched too. Most runs never need it, and pay nothing.
"""

import weakref
from collections.abc import Callable
from inspect import signature
from time import perf_counter_ns
from typing import Any, Final, Literal

import torch
from torch import Tensor
from torch.nn import functional

from trueloop.event.operation_names import BINARY_LOSSES, DISTANCE_LOSSES, LABEL_LOSSES
from trueloop.taps.bus import Bus
from trueloop.taps.calls import LossCall, PredictionCompared
from trueloop.taps.place import here
from trueloop.taps.tap import Patch, Tap, is_unwatched
from trueloop.torch_private.tensors import view_base

__all__ = ["LOSS_FUNCTIONS", "LossTap"]

LOSS_FUNCTIONS: Final = sorted(
    LABEL_LOSSES | BINARY_LOSSES | DISTANCE_LOSSES | {"kl_div"}
)  # Functions of (input, target, ...)

_Kind = Literal["argmax", "round"]
_PREDICTORS: Final[dict[str, _Kind]] = {"argmax": "argmax", "max": "argmax", "round": "round"}
"""Functions that turn scores into a prediction; max only if it returns indices."""


class LossTap(Tap):
    topics = ("loss_called", "prediction_compared")

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._predictions: dict[int, tuple[weakref.ref[Tensor], _Kind]] = {}
        self._watches_predictions = False

    def install(self) -> None:
        self.patches = [Patch(functional, name, self._wrap) for name in LOSS_FUNCTIONS]

    def _wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        bus, function = self.bus, original.__name__
        names = tuple(signature(original).parameters)

        def loss(*args: Any, **kwargs: Any) -> Any:
            began = 0 if is_unwatched(bus) else perf_counter_ns()  # a clock in compiled code would break the graph
            output = original(*args, **kwargs)
            if is_unwatched(bus) or bus.in_backward:
                return output
            options = dict(zip(names, args, strict=False)) | kwargs
            scores, target = options.pop("input", None), options.pop("target", None)
            if type(output) is Tensor and isinstance(scores, Tensor) and isinstance(target, Tensor):
                call = LossCall(function, scores, target, options, output, here(2), began)
                bus.publish("loss_called", call)
                if call.watch_predictions and not self._watches_predictions:
                    self._watch_predictions()
            return output

        return loss

    # -- predictions --

    def _watch_predictions(self) -> None:
        self._watches_predictions = True
        for name in _PREDICTORS:
            self.patches += [Patch(owner, name, self._wrap_predictor) for owner in (torch, Tensor)]
        self.patches += [Patch(torch, "eq", self._wrap_equal), Patch(Tensor, "eq", self._wrap_equal)]
        self.patches.append(Patch(Tensor, "__eq__", self._wrap_equal))

    def _wrap_predictor(self, original: Callable[..., Any]) -> Callable[..., Any]:
        bus, kind = self.bus, _PREDICTORS[original.__name__]

        def predict(*args: Any, **kwargs: Any) -> Any:
            output = original(*args, **kwargs)
            if not is_unwatched(bus):
                made = output[1] if isinstance(output, tuple) else None if original.__name__ == "max" else output
                if isinstance(made, Tensor):
                    key, predictions = id(made), self._predictions
                    predictions[key] = (weakref.ref(made, lambda _: predictions.pop(key, None)), kind)
            return output

        return predict

    def _wrap_equal(self, original: Callable[..., Any]) -> Callable[..., Any]:
        bus = self.bus

        def equal(*args: Any, **kwargs: Any) -> Any:
            if not is_unwatched(bus) and len(args) == 2 and isinstance(args[0], Tensor) and isinstance(args[1], Tensor):
                for made, other in (args, args[::-1]):
                    if (kind := self._kind_of(made)) is not None:
                        bus.publish("prediction_compared", PredictionCompared(kind, other, here(2)))
            return original(*args, **kwargs)

        return equal

    def _kind_of(self, tensor: Tensor) -> _Kind | None:
        """The kind of prediction that a tensor, or the base of a view, is; or None."""
        for candidate in (tensor, view_base(tensor)):
            known = None if candidate is None else self._predictions.get(id(candidate))
            if known is not None and known[0]() is candidate:
                return known[1]
        return None
