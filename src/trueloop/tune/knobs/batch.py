"""How many samples a step takes. It changes the training, so it is turned only with `--allow batch`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, final

from trueloop.recipe.recipe import Recipe
from trueloop.results.tune import Changes
from trueloop.tune.knob import Knob
from trueloop.tune.machine_facts import Here

__all__ = ["BatchSize"]


@final
class BatchSize(Knob):
    name = "batch"
    expected: ClassVar[Mapping[str, float]] = {"cuda": 2.0, "cpu": 1.2}
    helps = ("throughput", "latency")
    fields = ("batch",)

    def options(self, recipe: Recipe, here: Here) -> list[Changes]:
        return [
            {"batch": size}
            for size in (recipe.batch * 2, recipe.batch * 4, recipe.batch // 2)
            if recipe.accumulate <= size <= here.samples
        ]

    def why_not(self, recipe: Recipe, here: Here) -> str:
        return f"there are {here.samples:,} samples, and a batch holds {recipe.batch:,} already"
