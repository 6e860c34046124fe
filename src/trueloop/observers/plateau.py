"""The values passed to a ReduceLROnPlateau."""

from __future__ import annotations

import weakref

from torch import Tensor
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from trueloop.event import Place, PlateauStepped
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BuiltSchedule, ScheduleCall

__all__ = ["PlateauObserver"]


class PlateauObserver(Observer):
    emits = (PlateauStepped,)

    def prepare(self) -> None:
        self._built: weakref.WeakKeyDictionary[LRScheduler, Place | None] = weakref.WeakKeyDictionary()
        self._reported: weakref.WeakKeyDictionary[LRScheduler, int] = weakref.WeakKeyDictionary()

    def schedule_built(self, built: BuiltSchedule) -> None:
        if isinstance(built.scheduler, ReduceLROnPlateau):
            self._built[built.scheduler] = built.place

    def schedule_stepped(self, call: ScheduleCall) -> None:
        schedule = call.scheduler
        if not isinstance(schedule, ReduceLROnPlateau):
            return
        value = call.args[0] if call.args else call.kwargs.get("metrics")
        if value is None:
            return
        index = self._reported.get(schedule, 0)
        self._reported[schedule] = index + 1
        rates = [group.get("lr", 0.0) for group in schedule.optimizer.param_groups]
        self.emit(
            PlateauStepped,
            call.place,
            schedule=self.bus.ordinal("schedule", schedule),
            index=index,
            value=float(value.item() if isinstance(value, Tensor) else value),
            is_int=isinstance(value, int) and not isinstance(value, bool),
            mode=str(schedule.mode),
            patience=int(schedule.patience),
            learning_rates=tuple(float(rate) for rate in rates if not isinstance(rate, Tensor) or rate.is_cpu),
            optimizer_steps=self.bus.steps_taken[self.bus.ordinal("optimizer", schedule.optimizer)],
            built=self._built.get(schedule),
        )
