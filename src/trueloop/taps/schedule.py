"""Patches learning rate schedulers: __init__ and step. Publishes even while the bus sleeps."""

from collections.abc import Callable
from typing import Any

import torch
from torch.optim import lr_scheduler
from torch.optim.lr_scheduler import LRScheduler

from trueloop.taps.bus import Bus
from trueloop.taps.calls import BuiltSchedule, ScheduleCall
from trueloop.taps.place import here
from trueloop.taps.tap import Patch, Tap

__all__ = ["ScheduleTap"]


class ScheduleTap(Tap):
    """A scheduler inside another (SequentialLR, ChainedScheduler) is stepped by it; both are published."""

    topics = ("schedule_built", "schedule_stepped")

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._patched: set[type] = set()
        self._building = 0
        self._stepping: list[LRScheduler] = []

    def install(self) -> None:
        for cls in list(vars(lr_scheduler).values()):
            if isinstance(cls, type) and issubclass(cls, LRScheduler):
                self._patch(cls)

    def _patch(self, cls: type) -> None:
        if cls in self._patched:
            return
        self._patched.add(cls)
        if "__init__" in vars(cls):
            self.patches.append(Patch(cls, "__init__", self._wrap_init))
        if "step" in vars(cls):
            self.patches.append(Patch(cls, "step", self._wrap_step))

    def _quiet(self) -> bool:
        return torch.compiler.is_compiling() or self.bus.busy

    def _wrap_init(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __init__(scheduler: LRScheduler, *args: Any, **kwargs: Any) -> None:
            if self._quiet():
                original(scheduler, *args, **kwargs)
                return
            for cls in type(scheduler).__mro__:  # a user's class, at its first use
                if issubclass(cls, LRScheduler):
                    self._patch(cls)
            self._building += 1  # a scheduler steps itself once in __init__
            try:
                original(scheduler, *args, **kwargs)
            finally:
                self._building -= 1
            if not self._building:
                self.bus.publish("schedule_built", BuiltSchedule(scheduler, here(2)))

        return __init__

    def _wrap_step(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def step(scheduler: LRScheduler, *args: Any, **kwargs: Any) -> Any:
            if self._quiet() or self._building or any(known is scheduler for known in self._stepping):
                return original(scheduler, *args, **kwargs)
            call = ScheduleCall(scheduler, args, kwargs, here(2), inside=bool(self._stepping))
            self._stepping.append(scheduler)
            try:
                result = original(scheduler, *args, **kwargs)
            finally:
                self._stepping.pop()
            self.bus.publish("schedule_stepped", call)
            return result

        return step
