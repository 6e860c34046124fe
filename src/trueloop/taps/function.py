"""Replaces the forward of a custom `torch.autograd.Function`, for one call: the next one after an observer asked.

Only of functions that were found in a graph, so that the compiler never meets the wrapper.
"""

from collections.abc import Callable
from typing import Any

import torch

from trueloop.taps.bus import Bus
from trueloop.taps.calls import FunctionCall
from trueloop.taps.place import here
from trueloop.taps.tap import Patch, Tap, is_unwatched

__all__ = ["FunctionTap"]


class FunctionTap(Tap):
    topics = ("function_called",)

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._watched: dict[Any, tuple[Patch, Any]] = {}  # the function: its patch, and what stood in the class

    def install(self) -> None:
        self.bus.watch_function = self._watch

    def remove(self) -> None:
        for function in tuple(self._watched):
            self._release(function)

    def sleep(self) -> None:
        self.remove()

    def _watch(self, function: Any) -> None:
        if function not in self._watched:
            inside = vars(function).get("forward")
            patch = Patch(function, "forward", lambda original: self._wrap(original, function))
            setattr(function, "forward", staticmethod(patch.wrapper))  # noqa: B010 - instances must not bind it
            self._watched[function] = patch, inside

    def _release(self, function: Any) -> None:
        patch, inside = self._watched.pop(function)
        patch.undo()
        if inside is not None and function.forward is getattr(inside, "__func__", inside):
            setattr(function, "forward", inside)  # noqa: B010 - the staticmethod itself, not its function

    def _wrap(self, original: Callable[..., Any], function: Any) -> Callable[..., Any]:
        separate = function.setup_context is not torch.autograd.Function.setup_context

        def forward(*args: Any, **kwargs: Any) -> Any:
            if not is_unwatched(self.bus) and function in self._watched:
                self._release(function)
                if not kwargs:
                    given = args if separate else args[1:]  # without the context
                    self.bus.publish("function_called", FunctionCall(function, given, here(2)))
            return original(*args, **kwargs)

        return forward
