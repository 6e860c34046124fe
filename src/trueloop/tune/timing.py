"""Times a trial's recipe: a hook measures the time between rows of metrics; a controller decides what comes next."""

from __future__ import annotations

import copy
import gc
from abc import ABC, abstractmethod
from dataclasses import replace
from functools import cached_property
from statistics import median
from time import perf_counter
from typing import Any, Final, final

import torch
from torch import Tensor, nn

from trueloop.data.source import Batch, Source, Splits
from trueloop.engine.build_model import build_model
from trueloop.engine.loop import Loop
from trueloop.engine.read_data import read_data
from trueloop.engine.row_schedule import row_interval
from trueloop.hook import Hook, Row
from trueloop.measure.randomness import fence
from trueloop.recipe.recipe import DataRequest, Recipe

__all__ = ["NEVER", "Controller", "Enough", "TrialRecipe", "calibrate_interval", "drive", "interval"]

INTERVAL: Final = 0.05
"""Approximate seconds between two rows of metrics if the recipe's own interval is too long. Each row synchronizes with
the device, so they must be rare."""
LONGEST: Final = 0.3  # Seconds: up to this the recipe's own interval is used: programs that replay steps need it
STEPS: Final = 300_000  # Steps of a training that is only timed. Finite, because a schedule may be stored as a table.
WARM: Final = 2  # Rows of metrics before timing starts: the first includes compiling, the second its rest
NEVER: Final = 10**9  # Steps
VALID: Final = 4096  # Validation samples for the metric: an accuracy of 0.9 is then known to half a point


@final
class _Subset(Source):
    """Evenly chosen samples of a larger source."""

    def __init__(self, inner: Source) -> None:
        self.inner, self.stride = inner, len(inner) // VALID

    def __len__(self) -> int:
        return VALID

    def fetch(self, numbers: Tensor) -> Batch:
        return self.inner.fetch(numbers * self.stride)

    def resident(self, device: torch.device) -> Source | None:
        home = self.inner.resident(device)
        return None if home is None else _Subset(home)

    def nbytes(self) -> int | None:
        return self.inner.nbytes()

    def labels(self) -> Tensor | None:
        labels = self.inner.labels()
        return None if labels is None else labels[: VALID * self.stride : self.stride]


@final
class TrialRecipe:
    """A recipe whose data are read once."""

    def __init__(self, recipe: Recipe, request: DataRequest) -> None:
        recipe = replace(recipe, trackers=(), hooks=(), patience=None, statistics_every=0, on_nonfinite="stop")
        self.recipe = replace(recipe, evaluate_every=NEVER, save_every=NEVER)
        self.request = replace(request, seed=recipe.seed)
        self._models: dict[int, nn.Module] = {}

    @cached_property
    def splits(self) -> Splits:
        splits = read_data(self.recipe, self.request)
        valid = splits.valid
        return splits if valid is None or len(valid) <= VALID else replace(splits, valid=_Subset(valid))

    def _model(self, seed: int) -> nn.Module:
        """Freshly initialized. Built once per seed, then copied: evidence needs it many times."""
        if seed not in self._models:
            self._models[seed] = self._build(seed)
        try:
            return copy.deepcopy(self._models[seed])
        except (TypeError, RuntimeError, AttributeError):  # not copyable: an open file, a lock, a graph
            return self._build(seed)

    def _build(self, seed: int) -> nn.Module:
        with fence(seed):
            return build_model(self.recipe, self.splits.facts)

    def loop(self, hook: Hook | None = None, **changes: Any) -> Loop:
        """A new loop with other values for some fields."""
        recipe = replace(self.recipe, data=lambda _: self.splits, **changes)
        recipe = replace(recipe, model=lambda: self._model(recipe.seed))
        if recipe.steps is not None and recipe.warmup >= recipe.steps:
            recipe = replace(recipe, warmup=recipe.steps // 4)
        return Loop.of(recipe, self.request, hooks=hook)

    def of(self, recipe: Recipe) -> TrialRecipe:
        """Another variant with the same data."""
        other = TrialRecipe(recipe, self.request)
        other.__dict__["splits"] = self.splits
        if other.recipe.model is self.recipe.model:
            other._models = self._models
        return other


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
    return interval(median(calibration.steps[1:]), row_interval(subject.recipe.log_every))


def interval(step_seconds: float, own: int) -> int:
    """Steps between two rows: the recipe's own, or fewer if they take too long."""
    if own * step_seconds <= LONGEST:
        return own
    return max(1, min(own, int(INTERVAL / step_seconds)))
