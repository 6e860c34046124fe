"""The clock of a trial: a hook that measures the time between two lines of metrics, and lets somebody decide there what
comes next."""

from __future__ import annotations

import gc
from abc import ABC, abstractmethod
from statistics import median
from time import perf_counter
from typing import Final, final

from trueloop.engine.loop import Loop
from trueloop.hook import Hook, Row
from trueloop.tune.subject import Subject

__all__ = ["Desk", "Enough", "calibrated", "drive", "interval"]

INTERVAL: Final = 0.05
"""Seconds between two lines of metrics, about, where the recipe's own would take too long: there the host waits for the
device, which must be rare against the steps in between."""
LONGEST: Final = 0.3
"""Seconds: up to here the recipe's own interval is taken, because programs that play several steps at once depend on
it."""
STEPS: Final = 300_000
"""The length of a training that is only timed: few trials come so far. Not endless: a schedule may be kept as a
table."""
WARM: Final = 2
"""Lines of metrics before the clock counts: the first holds the compiling, the second what was left of it."""


class Enough(Exception):
    """Everything has been measured: the training need not go on."""


class Desk(ABC):
    """Whoever decides what happens between two lines of metrics; raises Enough to end the training."""

    @abstractmethod
    def warm(self, per_step: float, samples: float) -> None:
        """The training runs as it will; samples: of a step, on average."""

    @abstractmethod
    def interval(self, per_step: float) -> None:
        """So many seconds for each step since the last time."""


@final
class _Clock(Hook):
    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.loop: Loop | None = None
        self._rows = 0
        self._step = 0
        self._since = perf_counter()

    def logged(self, row: Row) -> None:
        now = perf_counter()
        if row.kind != "train" or row.step <= self._step:
            return
        per_step, self._step, self._rows = (now - self._since) / (row.step - self._step), row.step, self._rows + 1
        if self._rows == WARM:
            assert self.loop is not None
            batches = self.loop.parts.batches
            self.desk.warm(per_step, batches.samples / batches.steps_per_epoch)
        elif self._rows > WARM:
            self.desk.interval(per_step)
        self._since = perf_counter()  # whatever happened at the desk is not the training's time


def drive(subject: Subject, every: int, desk: Desk) -> str | None:
    """Train until the desk has enough (None), or until the training ends by itself: why."""
    clock = _Clock(desk)
    clock.loop = subject.loop(clock, epochs=None, steps=STEPS, log_every=every)
    try:
        ending = clock.loop.train()
    except Enough:
        return None
    return ending.message or f"{ending.reason} at step {ending.step}"


@final
class _Calibration(Desk):
    def __init__(self) -> None:
        self.steps: list[float] = []

    def warm(self, per_step: float, samples: float) -> None:
        self.steps.append(per_step)

    def interval(self, per_step: float) -> None:
        self.steps.append(per_step)
        if len(self.steps) > WARM and sum(self.steps) > INTERVAL:
            raise Enough


def calibrated(subject: Subject) -> int:
    """Steps between two lines of metrics that are worth it, by a first short training."""
    desk = _Calibration()
    ending = drive(subject, 1, desk)
    if ending is not None:
        raise RuntimeError(f"the training ended by itself: {ending}")
    gc.collect()  # a loop and its hooks hold each other: its model must not be in the peak of the one that is measured next
    return interval(median(desk.steps[1:]), subject.recipe.log_every)


def interval(step_seconds: float, own: int) -> int:
    """Steps between two lines: the recipe's own, unless they take too long; else a part of them."""
    if own * step_seconds <= LONGEST:
        return own
    return max(1, min(own, int(INTERVAL / step_seconds)))
