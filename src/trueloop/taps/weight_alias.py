"""Patches detach, numpy and copy_: weights that the user's line detaches, which copies nothing, and how the result is
used.

Publishes even while the bus sleeps: the best weights are kept, and put back, on few steps of a run.
"""

import sys
import weakref
from collections.abc import Callable
from types import CodeType
from typing import Any, Final

from torch import Tensor, nn

from trueloop.taps.bus import Bus
from trueloop.taps.calls import AliasCopied, WeightDetached
from trueloop.taps.place import caller_of, here, is_users, place_in
from trueloop.taps.tap import Patch, Tap, is_foreign

__all__ = ["WeightAliasTap"]

SAMPLE: Final = 8
"""First weights of each line and step: an average that is updated in every step detaches all weights in every step."""


class WeightAliasTap(Tap):
    topics = ("weight_detached", "alias_copied")

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._kept: dict[int, weakref.ref[Tensor]] = {}
        self._seen: dict[tuple[CodeType, int], tuple[int, int]] = {}
        """By line: the latest step, and how many weights it has detached in it."""

    def install(self) -> None:
        self.patches = [Patch(Tensor, name, self._wrap) for name in ("detach", "numpy")]
        self.patches.append(Patch(Tensor, "copy_", self._wrap_copy))

    def _wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        bus, kept, seen = self.bus, self._kept, self._seen
        of_arrays = original.__name__ == "numpy"

        def detach(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
            alias = original(tensor, *args, **kwargs)
            if is_foreign(bus) or tensor.grad_fn is not None or not (of_arrays or alias.__class__ is Tensor):
                return alias
            if tensor.requires_grad is not (tensor.__class__ is nn.Parameter):
                return alias  # neither a weight that is trained nor the value of a state dict
            caller = caller_of(sys._getframe(1))
            line = (caller.f_code, caller.f_lineno)
            step, count = seen.get(line, (bus.step, 0))
            count = count if step == bus.step else 0
            if count < SAMPLE and is_users(caller.f_code.co_filename):
                seen[line] = (bus.step, count + 1)
                if not of_arrays:
                    key = id(alias)
                    kept[key] = weakref.ref(alias, lambda _: kept.pop(key, None))
                bus.publish("weight_detached", WeightDetached(tensor, alias, place_in(caller)))
            return alias

        return detach

    def _wrap_copy(self, original: Callable[..., Any]) -> Callable[..., Any]:
        bus, kept = self.bus, self._kept

        def copy_(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
            if not is_foreign(bus) and kept and args and id(args[0]) in kept:
                bus.publish("alias_copied", AliasCopied(tensor, args[0], here(2)))
            return original(tensor, *args, **kwargs)

        return copy_
