"""Learning-rate schedules: built, stepped, and their state at the end, against the steps of their optimizers; and the
values passed to a ReduceLROnPlateau."""

import weakref
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import partial
from types import CellType, CodeType, FunctionType, SimpleNamespace
from typing import Any, Final

from torch import Tensor
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from trueloop.event import Place, PlateauStepped, ScheduleBuilt, ScheduleEnded, ScheduleStepped
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BuiltSchedule, LoaderStart, RunEnd, ScheduleCall

__all__ = ["PlateauObserver", "ScheduleObserver"]

_LENGTHS: Final = {
    "OneCycleLR": "total_steps",
    "CyclicLR": "total_size",
    "CosineAnnealingLR": "T_max",
    "LinearLR": "total_iters",
    "ConstantLR": "total_iters",
    "PolynomialLR": "total_iters",
}  # Where torch's schedules keep their number of steps (of CyclicLR: one cycle)


class _Record:
    """One schedule. Holds numbers and a weak reference only."""

    def __init__(self, scheduler: LRScheduler, number: int, place: Place | None, *, in_view: bool) -> None:
        self.ref = weakref.ref(scheduler)
        self.number = number
        self.name = type(scheduler).__name__
        self.place = place
        self.in_view = in_view
        self.optimizer = -1
        self.taken_before = 0  # steps that its optimizer had taken when it was built
        self.passes_before = 0
        self.steps = 0
        self.length: int | None = None
        self.inner = False
        self.numbers = tuple(sorted(_numbers_read(scheduler)))
        self.rates = (0.0, 0.0)
        self.ended: ScheduleEnded | None = None  # the event of a schedule that was freed


class ScheduleObserver(Observer):
    emits = (ScheduleBuilt, ScheduleStepped, ScheduleEnded)
    safe_on_shards = True

    def prepare(self) -> None:
        self._records: dict[int, _Record] = {}
        self._passes = 0

    def loader_started(self, start: LoaderStart) -> None:
        self._passes += 1

    def schedule_built(self, built: BuiltSchedule) -> None:
        record = self._know(built.scheduler, built.place, in_view=True)
        self._find_parts(built.scheduler)
        facts = (record.number, record.name, record.length, _rates(built.scheduler), record.optimizer)
        self.emit(ScheduleBuilt, record.place, *facts)

    def schedule_stepped(self, call: ScheduleCall) -> None:
        record = self._know(call.scheduler, None, in_view=False)
        record.inner = record.inner or call.inside
        record.steps += 1
        if record.steps == 1:
            self._find_parts(call.scheduler)
        if record.inner:
            return
        rates = _rates(call.scheduler)
        record.rates = (max(*rates, record.rates[0], 0.0), max(rates, default=0.0))
        self.emit(
            ScheduleStepped,
            call.place,
            schedule=record.number,
            name=record.name,
            index=record.steps - 1,
            length=record.length,
            optimizer_steps=self._taken(record),
            skipped_by_scaler=self.bus.scaler_used,
            seen_from_start=record.in_view,
            learning_rates=rates,
            optimizer=record.optimizer,
            explicit=_epoch_was_set(call),
        )

    def run_ended(self, end: RunEnd) -> None:
        for record in tuple(self._records.values()):
            if (scheduler := record.ref()) is not None:
                self._find_parts(scheduler)
        for record in tuple(self._records.values()):
            self.bus.emit(record.ended or self._end_of(record))

    def _know(self, scheduler: LRScheduler, place: Place | None, *, in_view: bool) -> _Record:
        number = self.bus.ordinal("schedule", scheduler)
        record = self._records.get(number)
        if record is None:
            record = self._records[number] = _Record(scheduler, number, place, in_view=in_view)
            optimizer = getattr(scheduler, "optimizer", None)
            if optimizer is not None:
                record.optimizer = self.bus.ordinal("optimizer", optimizer)
            record.taken_before, record.passes_before = self.bus.steps_taken[record.optimizer], self._passes
            weakref.finalize(scheduler, self._was_discarded, record).atexit = False
        record.length = _length(scheduler)
        return record

    def _find_parts(self, scheduler: LRScheduler) -> None:
        for part in _parts(scheduler):
            self._know(part, None, in_view=False).inner = True

    def _taken(self, record: _Record) -> int:
        return self.bus.steps_taken[record.optimizer] - record.taken_before

    def _was_discarded(self, record: _Record) -> None:
        record.ended = self._end_of(record)

    def _end_of(self, record: _Record) -> ScheduleEnded:
        return ScheduleEnded(
            step=self.bus.step,
            place=record.place,
            schedule=record.number,
            name=record.name,
            length=record.length,
            steps=record.steps,
            optimizer=record.optimizer,
            optimizer_steps=self._taken(record),
            passes=self._passes - record.passes_before,
            inner=record.inner,
            seen_from_start=record.in_view,
            numbers=record.numbers,
            rates=record.rates,
        )


def _parts(scheduler: LRScheduler) -> Iterator[LRScheduler]:
    """The schedules inside another schedule: SequentialLR, ChainedScheduler, and similar classes of users."""
    for value in vars(scheduler).values():
        for part in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(part, LRScheduler) and part is not scheduler:
                yield part


def _length(scheduler: LRScheduler) -> int | None:
    name = next((cls.__name__ for cls in type(scheduler).__mro__ if cls.__name__ in _LENGTHS), "")
    value: Any = vars(scheduler).get(_LENGTHS[name]) if name else None
    return int(value) if isinstance(value, (int, float)) else None


def _numbers_read(scheduler: LRScheduler) -> set[int]:
    """Whole numbers that the functions of a LambdaLR know: from around them, as globals, as arguments, as an object, or
    by name in a configuration."""
    found: list[Any] = []
    for function in vars(scheduler).get("lr_lambdas", ()):
        while isinstance(function, partial):
            found += [*function.args, *function.keywords.values()]
            function = function.func
        if isinstance(function, FunctionType):
            code = function.__code__
            found += [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
            found += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
            found += [function.__globals__.get(name) for name in code.co_names]
            found += [setting for value in tuple(found) for setting in _settings_read(value, code)]
        elif hasattr(function, "__dict__"):
            found += vars(function).values()
    return {value for value in found if type(value) is int}


def _settings_read(value: Any, code: CodeType) -> list[Any]:
    """Entries of a dictionary or attributes of an object of settings whose names stand in a function."""
    if type(value) is dict:
        return [value[name] for name in code.co_consts if isinstance(name, str) and name in value]
    if isinstance(value, (SimpleNamespace, Namespace)) or is_dataclass(value):
        held = getattr(value, "__dict__", {})
        return [held[name] for name in code.co_names if name in held]
    return []


def _is_filled(cell: CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # its variable has no value yet
        return False


def _rates(scheduler: LRScheduler) -> tuple[float, ...]:
    """The learning rates of its optimizer. Those in tensors on a device are not read: the host would wait."""
    groups = getattr(scheduler, "optimizer", None)
    rates = [group.get("lr", 0.0) for group in groups.param_groups] if groups is not None else []
    return tuple(float(rate) for rate in rates if not isinstance(rate, Tensor) or rate.device.type == "cpu")


def _epoch_was_set(call: ScheduleCall) -> bool:
    """`step(epoch)`; of ReduceLROnPlateau the first argument is the metric."""
    given = call.args[1:] if isinstance(call.scheduler, ReduceLROnPlateau) else call.args
    return any(value is not None for value in given) or call.kwargs.get("epoch") is not None


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
