"""Dropout that is active while the model is in eval mode. In train mode, and inactive, the check costs one comparison."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from torch import nn
from torch.nn import functional

from trueloop.taps.moment import DropoutCall
from trueloop.taps.place import frame_here, place_in
from trueloop.taps.tap import Patch, Tap, passes_by
from trueloop.taps.wire import Wire

__all__ = ["DropoutTap"]

_FUNCTIONS: Final = ("dropout", "alpha_dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout")


class DropoutTap(Tap):
    moments = ("dropout_called",)

    def __init__(self, wire: Wire) -> None:
        super().__init__(wire)
        self._patches: list[Patch] = []

    def install(self) -> None:
        self._patches = [Patch(functional, name, self._wrap) for name in _FUNCTIONS]
        self._patches.append(Patch(functional, "scaled_dot_product_attention", self._wrap_attention))

    def remove(self) -> None:
        for patch in self._patches:
            patch.undo()

    def _wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        by_default = original.__name__ in ("dropout", "dropout1d", "dropout2d", "dropout3d")

        def dropout(input: Any, p: float = 0.5, training: bool = by_default, inplace: bool = False) -> Any:
            if training and p > 0 and not passes_by(self.wire):
                self._tell(original.__name__, p)
            return original(input, p, training, inplace)

        return dropout

    def _wrap_attention(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def scaled_dot_product_attention(
            query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, *args: Any, **kwargs: Any
        ) -> Any:
            if dropout_p > 0 and not passes_by(self.wire):
                self._tell("scaled_dot_product_attention", dropout_p)
            return original(query, key, value, attn_mask, dropout_p, *args, **kwargs)

        return scaled_dot_product_attention

    def _tell(self, function: str, probability: float) -> None:
        call = self.wire.call
        if call is None or call.training:
            return
        frame = frame_here(3)
        if frame is None:
            return
        owner = frame.f_locals.get("self")
        owner = owner if isinstance(owner, nn.Module) else None
        self.wire.tell("dropout_called", DropoutCall(function, probability, place_in(frame), owner, frame.f_code.co_qualname))
