"""Patches the user's checks for NaN and Inf: isnan, isinf and isfinite of a single value, and nan_to_num."""

import sys
from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor

from trueloop.event.operation_names import FINITE_CHECKS
from trueloop.taps.calls import FiniteCheck, NanReplaced
from trueloop.taps.place import is_users, place_in
from trueloop.taps.tap import Patch, Tap, is_unwatched

__all__ = ["FiniteCheckTap"]

_REPLACERS: Final = ("nan_to_num", "nan_to_num_")


class FiniteCheckTap(Tap):
    topics = ("finite_checked", "nan_replaced")

    def install(self) -> None:
        wraps = [(name, self._wrap_check) for name in FINITE_CHECKS] + [
            (name, self._wrap_replacer) for name in _REPLACERS
        ]
        self.patches = [Patch(owner, name, wrap) for name, wrap in wraps for owner in (torch, Tensor)]

    def _wrap_check(self, original: Callable[..., Any]) -> Callable[..., Any]:
        bus = self.bus

        def check(*args: Any, **kwargs: Any) -> Any:
            answer = original(*args, **kwargs)
            watched = not is_unwatched(bus) and not bus.in_backward
            if watched and args and isinstance(args[0], Tensor) and args[0].numel() == 1:
                caller = sys._getframe(1)
                if is_users(caller.f_code.co_filename):
                    bus.publish("finite_checked", FiniteCheck(args[0], place_in(caller)))
            return answer

        return check

    def _wrap_replacer(self, original: Callable[..., Any]) -> Callable[..., Any]:
        bus = self.bus

        def replace(*args: Any, **kwargs: Any) -> Any:
            if not is_unwatched(bus) and not bus.in_backward and args and isinstance(args[0], Tensor):
                caller = sys._getframe(1)
                if is_users(caller.f_code.co_filename):
                    bus.publish("nan_replaced", NanReplaced(args[0], place_in(caller)))
            return original(*args, **kwargs)

        return replace
