"""Patches Optimizer.__init__ and hooks each step, by torch's own hooks, which work for user-written optimizers too.

This tap counts the steps of the run, so it is always installed and never sleeps.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from trueloop.event import Place
from trueloop.taps.bus import Bus, StopTheRun
from trueloop.taps.calls import BuiltOptimizer, StepCall
from trueloop.taps.place import here
from trueloop.taps.tap import Patch, Tap, is_unwatched
from trueloop.torch_private.compiler import compiler_callback, hide_from_compiler
from trueloop.torch_private.optimizers import steps_running

__all__ = ["OptimizerTap"]

_is_compiling = torch.compiler.is_compiling


class OptimizerTap(Tap):
    topics = ("optimizer_built", "step_started", "step_ended")

    def __init__(self, bus: Bus, after_step: Callable[[int], None], before: Callable[[Place | None], None]) -> None:
        super().__init__(bus)
        self._before_built = before  # Called before a new optimizer is published: the budget may wake the taps
        self._after_step = after_step
        """Called after each counted step, with the number of the optimizer's: the budget decides which taps sleep."""
        self._handles: list[Any] = []
        self._taken: Counter[int] = bus.steps_taken  # Steps by the number of the optimizer
        self._calls: list[StepCall | None] = []
        """Running steps, outermost first: optimizers may be nested. None for a step that began while the bus slept."""

    def install(self) -> None:
        self.patches = [Patch(Optimizer, "__init__", self._wrap_init)]
        self._handles = [register_optimizer_step_pre_hook(self._before), register_optimizer_step_post_hook(self._after)]

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        super().remove()

    def _wrap_init(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __init__(optimizer: Optimizer, *args: Any, **kwargs: Any) -> None:
            original(optimizer, *args, **kwargs)
            if _is_compiling() or self.bus.is_foreign():
                return
            place = here(2)
            self._before_built(place)
            if not is_unwatched(self.bus):
                self.bus.publish("optimizer_built", BuiltOptimizer(optimizer, place))

        return __init__

    def _before(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        bus = self.bus
        if _is_compiling() or compiler_callback() is not None or bus.busy:
            return
        if self._calls:
            del self._calls[steps_running() - 1 :]  # an earlier step raised, and the user continued
        bus.in_step = len(self._calls) + 1
        if not bus.awake:
            self._calls.append(None)
            return
        closure = (args[1] if len(args) > 1 else kwargs.get("closure")) is not None
        call = StepCall(optimizer, here(2), self._taken[bus.ordinal("optimizer", optimizer)], closure)
        self._calls.append(call)
        bus.publish("step_started", call)

    def _after(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        bus = self.bus
        if _is_compiling() or compiler_callback() is not None or bus.busy:
            return
        call = self._calls.pop() if self._calls else None
        bus.in_step = len(self._calls)
        if bus.awake and call is not None:
            bus.publish("step_ended", call)
        bus.step += 1
        number = bus.ordinal("optimizer", optimizer)
        self._taken[number] += 1
        if bus.step_log is not None and not bus.is_foreign():
            bus.step_log.stepped(optimizer)
        self._after_step(self._taken[number])
        if bus.stop_reason:
            raise StopTheRun(bus.stop_reason)


for hook in (OptimizerTap._before, OptimizerTap._after):
    hide_from_compiler(hook.__code__)
