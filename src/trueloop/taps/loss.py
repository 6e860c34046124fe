"""Loss functions of torch.nn.functional; the nn.XLoss modules look them up there at each call, so they are seen too."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any, Final

from torch import Tensor
from torch.nn import functional

from trueloop.taps.moment import LossCall
from trueloop.taps.place import here
from trueloop.taps.tap import Patch, Tap, passes_by
from trueloop.taps.wire import Wire

__all__ = ["LOSSES", "LossTap"]

LOSSES: Final = (
    "cross_entropy",
    "nll_loss",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "kl_div",
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "multi_margin_loss",
)
"""Functions of (input, target, ...)."""


class LossTap(Tap):
    moments = ("loss_called",)

    def __init__(self, wire: Wire) -> None:
        super().__init__(wire)
        self._patches: list[Patch] = []

    def install(self) -> None:
        self._patches = [Patch(functional, name, self._wrap) for name in LOSSES]

    def remove(self) -> None:
        for patch in self._patches:
            patch.undo()

    def _wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        wire, function = self.wire, original.__name__
        names = tuple(signature(original).parameters)

        def loss(*args: Any, **kwargs: Any) -> Any:
            output = original(*args, **kwargs)
            if passes_by(wire) or wire.in_backward:
                return output
            options = dict(zip(names, args, strict=False)) | kwargs
            scores, target = options.pop("input", None), options.pop("target", None)
            if type(output) is Tensor and isinstance(scores, Tensor) and isinstance(target, Tensor):
                wire.tell("loss_called", LossCall(function, scores, target, options, output, here(2)))
            return output

        return loss
