"""Patches dropout functions: counts active calls per model call, and publishes those in eval mode."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

from torch import nn
from torch.nn import functional

from trueloop.event.operation_names import DROPOUTS
from trueloop.taps.calls import DropoutCall
from trueloop.taps.place import is_users, outer_frames, place_in
from trueloop.taps.tap import Patch, Tap, is_unwatched

__all__ = ["DropoutTap"]

_ON_BY_DEFAULT: Final = ("dropout", "dropout1d", "dropout2d", "dropout3d")


class DropoutTap(Tap):
    topics = ("dropout_called", "module_call_ended")

    def install(self) -> None:
        self.patches = [Patch(functional, name, self._wrap) for name in DROPOUTS]
        self.patches.append(Patch(functional, "scaled_dot_product_attention", self._wrap_attention))

    def _wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        bus, by_default = self.bus, original.__name__ in _ON_BY_DEFAULT

        def dropout(input: Any, p: float = 0.5, training: bool = by_default, inplace: bool = False) -> Any:
            if training and not is_unwatched(bus) and bus.call is not None and p > 0:
                self._count(original.__name__, p)
            return original(input, p, training, inplace)

        return dropout

    def _wrap_attention(self, original: Callable[..., Any]) -> Callable[..., Any]:
        bus = self.bus

        def scaled_dot_product_attention(
            query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, *args: Any, **kwargs: Any
        ) -> Any:
            if not is_unwatched(bus) and bus.call is not None and dropout_p > 0:
                self._count("scaled_dot_product_attention", dropout_p)
            return original(query, key, value, attn_mask, dropout_p, *args, **kwargs)

        return scaled_dot_product_attention

    def _count(self, function: str, probability: float) -> None:
        call = self.bus.call
        if call is None:
            return
        call.dropouts += 1
        caller = sys._getframe(2)
        if call.training or not is_users(caller.f_code.co_filename):
            return  # a library's layer follows its own mode, and may be in train mode on purpose
        names = tuple(frame.f_code.co_qualname for frame in outer_frames(caller) if is_users(frame.f_code.co_filename))
        self.bus.publish("dropout_called", DropoutCall(function, probability, place_in(caller), _owner(caller), names))


def _owner(caller: FrameType) -> nn.Module | None:
    """The first `self` that is a module, from the call outwards."""
    for frame in outer_frames(caller):
        names = frame.f_code.co_varnames
        if names and frame.f_code.co_argcount and isinstance(owner := frame.f_locals.get(names[0]), nn.Module):
            return owner
    return None
