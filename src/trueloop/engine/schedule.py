"""The learning rate as a pure function of the optimizer step: at any batch size, accumulation or number of processes.

Usable alone:

    rate = Schedule("cosine", lr=3e-4, total=10_000, warmup=500)
    for step in range(10_000):
        set_rate(optimizer, rate(step))
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch

from trueloop.errors import BadRecipe
from trueloop.recipe.call import call_own
from trueloop.recipe.recipe import Recipe

__all__ = ["SHAPES", "Schedule", "check_schedule", "lr_note", "peak_lr", "set_rate"]

START_OF_ONE_CYCLE: Final = 1 / 25  # One-cycle begins low, as its authors do
RISE_OF_ONE_CYCLE: Final = 0.3  # The share of the run in which one-cycle rises


def _one_cycle(at: float, of: Schedule) -> float:
    # Counted in steps, as torch's OneCycleLR does: the rise ends in the highest rate, the run in the lowest.
    steps = max(1, of.total - of.warmup)
    step, top = at * steps, max(0.0, RISE_OF_ONE_CYCLE * steps - 1)
    if step < top:
        return _between(START_OF_ONE_CYCLE, 1.0, step / top)
    return _between(1.0, of.final, min(1.0, (step - top) / max(1.0, steps - 1 - top)))


def _between(first: float, last: float, at: float) -> float:
    """From one to the other, along half a cosine."""
    return last + (first - last) * (1 + math.cos(math.pi * at)) / 2


# Name -> the share of lr at a point of the run between 0 and 1. `step` counts by itself; `plateau` follows the metric.
SHAPES: Final[dict[str, Callable[[float, Schedule], float]]] = {
    "constant": lambda *_: 1.0,
    "step": lambda *_: 1.0,
    "cosine": lambda at, of: _between(1.0, of.final, at),
    "one-cycle": _one_cycle,
    "linear": lambda at, of: 1 - (1 - of.final) * at,
    "plateau": lambda *_: 1.0,
}


@dataclass(frozen=True, slots=True)
class Schedule:
    """`schedule(step)` is the learning rate of that optimizer step, the first being 0."""

    shape: str | Callable[[int, int], float]  # One's own: (step, total steps) -> a share of lr, both after the warm-up
    lr: float
    total: int  # Optimizer steps of the whole run
    warmup: int = 0
    final: float = 0.0
    step_size: int = 0
    gamma: float = 0.1

    def __call__(self, step: int) -> float:
        left = max(1, self.total - self.warmup)
        if step < self.warmup:
            top = 1.0 if isinstance(self.shape, str) else _own_share(self.shape, 0, left)  # where the schedule begins
            return self.lr * top * (step + 1) / self.warmup
        if not isinstance(self.shape, str):
            return self.lr * _own_share(self.shape, step - self.warmup, left)
        if self.shape == "step":
            every = self.step_size or max(1, self.total // 3)
            return self.lr * self.gamma ** ((step - self.warmup) // every)
        return self.lr * SHAPES[self.shape](min(1.0, (step - self.warmup) / left), self)


def _own_share(schedule: Callable[[int, int], float], step: int, total: int) -> float:
    answer = schedule(step, total)
    try:
        share = float(answer)
    except (TypeError, ValueError):
        share = math.nan
    if not (math.isfinite(share) and share >= 0):
        said = f"The recipe's schedule returned {answer!r} for step {step:,} of {total:,}"
        raise BadRecipe(f"{said}. Return a share of lr that is 0 or more: 1.0 is the full learning rate.")
    return share


def check_schedule(schedule: Schedule) -> None:
    """Raises BadRecipe for a schedule of one's own that is not a pure function with finite shares of lr, 0 or more."""
    if isinstance(schedule.shape, str):
        return
    call_own("schedule", "def schedule(step, total_steps)", schedule.shape, 0, max(1, schedule.total - schedule.warmup))
    steps = [schedule.warmup + max(0, schedule.total - schedule.warmup - 1) * quarter // 4 for quarter in range(5)]
    first, again = ([schedule(step) for step in steps] for _ in range(2))
    for step, *rates in zip(steps, first, again, strict=True):
        if rates[0] != rates[1]:
            said = f"The recipe's schedule gave {rates[0]:g} and then {rates[1]:g} for step {step:,}"
            raise BadRecipe(f"{said}. Nothing was run: a resumed run needs a function of the step alone.")
    if not any(first):
        raise BadRecipe("The recipe's schedule is 0 at every step tried: nothing would be learned. Nothing was run.")


def peak_lr(recipe: Recipe) -> float:
    """The recipe's lr, scaled by how its batch compares with the one that lr was found for, if asked for."""
    if recipe.lr_scaling == "none" or recipe.reference_batch is None:
        return recipe.lr
    times = recipe.batch / recipe.reference_batch
    return recipe.lr * (times if recipe.lr_scaling == "linear" else math.sqrt(times))


def lr_note(recipe: Recipe) -> str:
    """What was done to lr, for the start of the run; empty: nothing."""
    if recipe.lr_scaling == "none":
        return ""
    return (
        f"lr: {recipe.lr:g} for a batch of {recipe.reference_batch:,} is {peak_lr(recipe):g} for {recipe.batch:,} "
        f"(lr_scaling={recipe.lr_scaling})"
    )


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Of every group, times the group's own `lr_scale` if it has one."""
    for group in optimizer.param_groups:
        scaled = rate * group.get("lr_scale", 1.0)
        if isinstance(group["lr"], torch.Tensor):
            group["lr"].fill_(scaled)
        else:
            group["lr"] = scaled
