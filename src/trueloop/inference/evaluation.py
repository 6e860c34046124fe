"""A run's model on a split of its data: each metric with its interval, beside the value that the run logged."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from trueloop.data.source import samples_in
from trueloop.engine.own_evaluation import evaluates_without_data
from trueloop.engine.precision import Precision
from trueloop.inference.intervals import SampleSums
from trueloop.inference.load import Loaded
from trueloop.session.folder import read_about
from trueloop.session.machine import machine
from trueloop.track.metrics import current_rows, read_rows

__all__ = ["Evaluation", "Measured", "evaluate_run"]

ROUNDING: Final = 1e-4  # relative: of a different number of processes or threads
ELSEWHERE: Final = 1e-3  # on a different machine or torch version: sums in a different order
ELSEWHERE_NARROW: Final = 1e-2  # the same in fp16 and bf16
FLIPS: Final = 2  # Samples whose prediction rounding may change there


@final
@dataclass(frozen=True, slots=True)
class Measured:
    """One metric."""

    name: str
    value: float
    interval: tuple[float, float] | None = None  # 95%; None: it is not computed from sums over samples
    logged: float | None = None  # By the run, for these weights and this split
    rounding: float = ROUNDING  # Relative
    flips: float = 0.0  # Absolute: what single samples change in a share of them

    @property
    def difference(self) -> float | None:
        """From the logged value."""
        if self.logged is None:
            return None
        same = self.value == self.logged or (self.value != self.value and self.logged != self.logged)
        return 0.0 if same else self.value - self.logged

    @property
    def agrees(self) -> bool:
        """Up to rounding; also where the run logged nothing."""
        allowed = max(self.rounding * max(abs(self.logged or 0.0), ROUNDING), self.flips)
        return self.difference is None or abs(self.difference) <= allowed


@final
@dataclass(frozen=True, slots=True)
class Evaluation:
    run: str
    step: int
    weights: str  # model | ema
    split: str  # test | valid | train; empty: the recipe's own evaluation needs no data
    samples: int | None  # None: not known, as of a stream
    device: str
    metrics: tuple[Measured, ...]


def evaluate_run(loaded: Loaded, split: str = "") -> Evaluation:
    """`split`: test | valid | train; empty: test, or else valid. Raises Misuse."""
    recipe, trained = loaded.recipe, loaded.trained
    assert trained is not None  # of a run with a recipe
    if not split and not evaluates_without_data(recipe):
        split = "valid" if loaded.splits.test is None else "test"
    sums = SampleSums(recipe, trained.task, Precision(recipe.precision, loaded.device))
    values = loaded.evaluate(split or None, seen=sums.add)
    step, intervals = int(trained.run["step"]), sums.intervals()
    logged = logged_values(loaded.folder, split or "valid", step)
    source = getattr(loaded.splits, split) if split else None
    samples = samples_in(source) if source is not None else None
    rounding, flips = _allowed(loaded, samples)
    metrics = tuple(
        Measured(name, value, intervals.get(name), logged.get(name), rounding, 0.0 if name == "loss" else flips)
        for name, value in values.items()
    )
    name = loaded.folder.resolve().name
    return Evaluation(name, step, str(trained.run["weights"]), split, samples, str(loaded.device), metrics)


def _allowed(loaded: Loaded, samples: int | None) -> tuple[float, float]:
    """By how much values may differ from the logged ones: relative, and in samples."""
    then, now = read_about(loaded.folder).get("machine") or {}, machine()
    was_on_gpu = bool(then.get("cuda")) and loaded.recipe.device != "cpu"
    alike = all(then.get(fact) == now[fact] for fact in ("torch", "cpus", "cuda"))
    if alike and was_on_gpu == (loaded.device.type == "cuda"):
        return ROUNDING, 0.0
    narrow = loaded.recipe.precision in ("bf16", "fp16")
    return ELSEWHERE_NARROW if narrow else ELSEWHERE, FLIPS / samples if samples else 0.0


def logged_values(run: Path, split: str, step: int) -> Mapping[str, float]:
    """What the run logged for the weights of this step; empty: nothing."""
    rows = current_rows(read_rows(run, (split,))) if split != "train" else ()
    return next((row.values for row in rows if row.kind == split and row.step == step), {})
