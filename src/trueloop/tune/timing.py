"""Times a training: a hook measures the time between two rows of metrics, and a controller decides what comes next."""

import gc
from abc import ABC, abstractmethod
from statistics import median
from time import perf_counter
from typing import Final, final

from trueloop.engine.loop import Loop
from trueloop.hook import Hook, Row
from trueloop.tune.trial_recipe import TrialRecipe

__all__ = ["Controller", "Enough", "calibrate_interval", "drive", "interval"]

INTERVAL: Final = 0.05
"""Approximate seconds between two rows of metrics if the recipe's own interval is too long. Each row synchronizes with
the device, so they must be rare."""
LONGEST: Final = 0.3
"""Seconds: up to this the recipe's own interval is used, because programs that replay several steps depend on it."""
STEPS: Final = 300_000  # Steps of a training that is only timed. Finite, because a schedule may be stored as a table.
WARM: Final = 2  # Rows of metrics before timing starts: the first includes compiling, the second its rest


class Enough(Exception):
    """Ends the training: everything has been measured."""


class Controller(ABC):
    """Decides what happens between two rows of metrics; raises Enough to end the training."""

    @abstractmethod
    def warm(self, per_step: float, samples: float) -> None:
        """Warm-up is over. `samples`: per step, on average."""

    @abstractmethod
    def interval(self, per_step: float) -> None:
        """Seconds per step since the last call."""


@final
class _Clock(Hook):
    def __init__(self, controller: Controller) -> None:
        self.controller = controller
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
            self.controller.warm(per_step, batches.samples / batches.steps_per_epoch)
        elif self._rows > WARM:
            self.controller.interval(per_step)
        self._since = perf_counter()  # without the controller's own time


def drive(subject: TrialRecipe, every: int, controller: Controller) -> str | None:
    """Trains until the controller raises Enough (None), or the training ends early (why)."""
    clock = _Clock(controller)
    clock.loop = subject.loop(clock, epochs=None, steps=STEPS, log_every=every)
    try:
        ending = clock.loop.train()
    except Enough:
        return None
    return ending.message or f"{ending.reason} at step {ending.step}"


@final
class _Calibration(Controller):
    def __init__(self) -> None:
        self.steps: list[float] = []

    def warm(self, per_step: float, samples: float) -> None:
        self.steps.append(per_step)

    def interval(self, per_step: float) -> None:
        self.steps.append(per_step)
        if len(self.steps) > WARM and sum(self.steps) > INTERVAL:
            raise Enough


def calibrate_interval(subject: TrialRecipe) -> int:
    """Steps between two rows of metrics, measured by a short training."""
    calibration = _Calibration()
    ending = drive(subject, 1, calibration)
    if ending is not None:
        raise RuntimeError(f"the training ended early: {ending}")
    gc.collect()  # reference cycles: its model must not count in the next peak
    return interval(median(calibration.steps[1:]), subject.recipe.log_every)


def interval(step_seconds: float, own: int) -> int:
    """Steps between two rows: the recipe's own, or fewer if they take too long."""
    if own * step_seconds <= LONGEST:
        return own
    return max(1, min(own, int(INTERVAL / step_seconds)))
