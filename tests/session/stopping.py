"""Runs that are stopped at an exact moment, and what they leave."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from tests.torture.beacon import Beacon
from tests.torture.recipes import SCENARIOS
from tests.torture.victim import warm_up
from trueloop.checkpoint.plan import name_of
from trueloop.hook import Hook, Row
from trueloop.recipe.recipe import Recipe

__all__ = ["Doing", "Words", "at_forward", "recipe_of", "signalling"]


warm_up()  # once, here: each forked child would do it again


def recipe_of(scenario: str, **settings: Any) -> Recipe:
    """A scenario of the torture, shorter."""
    found = next(each for each in SCENARIOS if each.name == scenario)
    recipe = found.recipe(Beacon())
    length = {"epochs": 3} if recipe.steps is None else {}
    return replace(recipe, **{**length, **settings})


def at_forward(recipe: Recipe, number: int, work: Callable[[], object]) -> Recipe:
    """The same recipe to everybody, but something happens in the model's nth training forward."""

    @functools.wraps(recipe.model)
    def build() -> Any:
        model, seen = recipe.model(), 0

        def count(module: nn.Module, inputs: Any) -> None:
            nonlocal seen
            seen += module.training
            if module.training and seen == number:
                work()

        first = next(iter(model.values())) if isinstance(model, dict) else model  # of a step of the user's own
        first.register_forward_pre_hook(count)
        return model

    return replace(recipe, model=build)


def signalling(number: int) -> Callable[[], object]:
    """Sends a signal to this process."""
    return lambda: os.kill(os.getpid(), number)


class Words(Hook):
    """Remembers what a person would read."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.saved_steps: list[int] = []

    def noted(self, sentence: str) -> None:
        self.notes.append(sentence)

    def saved(self, step: int, path: str) -> None:
        self.saved_steps.append(step)


class Doing(Hook):
    """Does something when the row of a step is logged, and the checkpoint before it has reached the disk."""

    def __init__(self, step: int, saved: int, work: Callable[[Path], object], run: Path) -> None:
        self.step, self.saved_step, self.work, self.run = step, saved, work, run

    def logged(self, row: Row) -> None:
        if row.kind == "train" and row.step == self.step:
            while not (self.run / "checkpoints" / name_of(self.saved_step)).exists() or _busy(self.run):
                time.sleep(0.01)
            self.work(self.run)


def _busy(run: Path) -> bool:
    return any(entry.name.startswith(".") for entry in (run / "checkpoints").iterdir())
