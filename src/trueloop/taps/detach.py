"""Patches detach, item, tolist and numpy: the user's calls on tensors with a graph.

Published on deep steps only; after them each call costs one more comparison.
"""

import sys
from collections.abc import Callable
from typing import Any, Final

from torch import Tensor

from trueloop.taps.calls import DetachCall
from trueloop.taps.place import caller_of, is_users, place_in
from trueloop.taps.tap import Patch, Tap, is_unwatched

__all__ = ["DetachTap"]

_NAMES: Final = ("detach", "item", "tolist", "numpy")


class DetachTap(Tap):
    topics = ("tensor_detached",)

    def install(self) -> None:
        self.patches = [Patch(Tensor, name, self._wrap) for name in _NAMES]

    def _wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        bus, function = self.bus, original.__name__

        def detach(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
            if not is_unwatched(bus) and bus.deep and not bus.in_backward and tensor.grad_fn is not None:
                caller = caller_of(sys._getframe(1))  # skip a library's own calls
                if is_users(caller.f_code.co_filename):
                    bus.publish("tensor_detached", DetachCall(function, tensor, place_in(caller)))
            return original(tensor, *args, **kwargs)

        return detach
