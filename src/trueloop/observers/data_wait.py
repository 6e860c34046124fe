"""How long the loop waits for its batches, over a number of training steps.

A round is one step, from the arrival of its batch to the arrival of the next. The first steps, the first batch of each
pass (workers start there) and passes without a step do not count. On a CUDA device each arrival also queries, without
waiting, whether the device has run out of work: a wait while earlier steps still compute costs nothing.
"""

from statistics import median
from time import perf_counter_ns
from typing import Final

import torch

from trueloop.event import BatchesAwaited, Place
from trueloop.measure.parameters import parameters_of
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BatchDrawn, LoaderStart, RunEnd

__all__ = ["DataWaitObserver"]

FIRST_STEP: Final = 4  # earlier steps are slow for other reasons: memory allocation, kernel selection, the observers
ENOUGH: Final = 32  # rounds to measure per loader
FEWEST: Final = 8  # fewest rounds for a median, where the run ends early


class _Rounds:
    """Measurements of one loader."""

    __slots__ = ("computed", "idle", "place", "since", "step", "waits", "walls")

    def __init__(self) -> None:
        self.place: Place | None = None
        self.since = 0  # when the round began; 0 before the first one
        self.step = 0
        self.walls: list[int] = []
        self.waits: list[int] = []
        self.computed: list[int] = []  # the last entry of this and of the waits belongs to the open round
        self.idle: list[bool] = []

    def begin(self, now: int, step: int) -> None:
        self.since, self.step = now, step
        self.waits.append(0)
        self.computed.append(0)

    def forget(self) -> None:
        """The open round does not count."""
        if self.since:
            self.since = 0
            self.waits.pop()
            self.computed.pop()


class DataWaitObserver(Observer):
    emits = (BatchesAwaited,)
    safe_on_shards = True

    def prepare(self) -> None:
        self._open: dict[int, _Rounds] = {}
        self._reported: set[int] = set()
        self._device: torch.device | None = None

    def loader_started(self, start: LoaderStart) -> None:
        number = self.bus.ordinal("loader", start.loader)
        if number not in self._reported:
            rounds = self._open.setdefault(number, _Rounds())
            rounds.place = start.place
            rounds.forget()

    def watching_resumed(self, nothing: None) -> None:
        for rounds in self._open.values():
            rounds.forget()

    def batch_drawn(self, drawn: BatchDrawn) -> None:
        number = drawn.number
        rounds = self._open.get(number) if number is not None else None
        if number is None or rounds is None or drawn.computed_ns is None or self.bus.step < FIRST_STEP:
            return
        now, step = perf_counter_ns(), self.bus.step
        if rounds.since:
            rounds.waits[-1] += drawn.waited_ns
            rounds.computed[-1] += drawn.computed_ns
            if step == rounds.step:
                return  # a batch of the same step: gradients are accumulated, or nothing is trained
            rounds.walls.append(now - rounds.since)
            self._query_device(rounds)
        rounds.begin(now, step)
        if len(rounds.walls) >= ENOUGH:
            self._report(number, self._open.pop(number))

    def run_ended(self, end: RunEnd) -> None:
        for number, rounds in self._open.items():
            if len(rounds.walls) >= FEWEST:
                self._report(number, rounds)

    def _query_device(self, rounds: _Rounds) -> None:
        if self._device is None:
            self._device = self._trained_on()
        if self._device.type == "cuda" and not torch.cuda.is_current_stream_capturing():
            rounds.idle.append(torch.cuda.current_stream(self._device).query())

    def _trained_on(self) -> torch.device:
        """The device of the trained parameters; the host only if all are there."""
        firsts = [next(parameters_of(optimizer), None) for _, optimizer in self.objects.living_optimizers()]
        devices = [first.device for first in firsts if first is not None]
        return next((device for device in devices if device.type != "cpu"), torch.device("cpu"))

    def _report(self, number: int, rounds: _Rounds) -> None:
        self._reported.add(number)
        rounds.forget()
        steps = len(rounds.walls)
        self.emit(
            BatchesAwaited,
            rounds.place,
            loader=number,
            device=(self._device or torch.device("cpu")).type,
            steps=steps,
            step_ms=median(rounds.walls) / 1e6,
            waited_ms=median(rounds.waits) / 1e6,
            computed_ms=median(rounds.computed) / 1e6,
            idle=sum(rounds.idle) / len(rounds.idle) if rounds.idle else None,
        )
