"""Optimizers: when they are built, and each step. Hooks of torch's own, which fire for user-written optimizers too.

This tap counts the steps of the run, so it is always installed and never sleeps; it also decides when the others do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from trueloop.taps.moment import BuiltOptimizer, StepCall
from trueloop.taps.place import here
from trueloop.taps.tap import Patch, Tap, passes_by
from trueloop.taps.wire import StopTheRun, Wire

__all__ = ["OptimizerTap"]

_is_compiling = torch.compiler.is_compiling


class OptimizerTap(Tap):
    moments = ("optimizer_built", "step_started", "step_ended")

    def __init__(self, wire: Wire, after_step: Callable[[], None]) -> None:
        super().__init__(wire)
        self._after_step = after_step
        """Called when a step has been counted: the budget decides here who sleeps."""
        self._handles: list[Any] = []
        self._patches: list[Patch] = []
        self._taken: WeakKeyDictionary[Optimizer, int] = WeakKeyDictionary()
        self._call: StepCall | None = None

    def install(self) -> None:
        self._patches = [Patch(Optimizer, "__init__", self._wrap_init)]
        self._handles = [register_optimizer_step_pre_hook(self._before), register_optimizer_step_post_hook(self._after)]

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        for patch in self._patches:
            patch.undo()

    def _wrap_init(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __init__(optimizer: Optimizer, *args: Any, **kwargs: Any) -> None:
            original(optimizer, *args, **kwargs)
            if not passes_by(self.wire):
                self.wire.tell("optimizer_built", BuiltOptimizer(optimizer, here(2)))

        return __init__

    def _before(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        wire = self.wire
        if _is_compiling() or wire.busy:
            return
        wire.in_step += 1
        if not wire.awake:
            return
        closure = (args[1] if len(args) > 1 else kwargs.get("closure")) is not None
        self._call = StepCall(optimizer, here(2), self._taken.get(optimizer, 0), closure)
        wire.tell("step_started", self._call)

    def _after(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        wire = self.wire
        if _is_compiling() or wire.busy:
            return
        wire.in_step = max(0, wire.in_step - 1)
        if wire.awake and self._call is not None:
            wire.tell("step_ended", self._call)
        self._call = None
        wire.step += 1
        self._taken[optimizer] = self._taken.get(optimizer, 0) + 1
        self._after_step()
        if wire.stop_asked:
            raise StopTheRun(wire.stop_asked)
