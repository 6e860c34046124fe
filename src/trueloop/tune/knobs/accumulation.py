"""A batch computed in pieces: the same numbers with less memory. (Not for a BatchNorm, which sees the pieces: that is
refused.)"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, final

from trueloop.recipe.recipe import Recipe
from trueloop.results.tune import Changes
from trueloop.tune.knob import Knob
from trueloop.tune.machine_facts import Here

__all__ = ["Accumulation"]


@final
class Accumulation(Knob):
    name = "accumulation"
    expected: ClassVar[Mapping[str, float]] = {"cuda": 1.5, "cpu": 1.5}
    helps = ("memory",)
    fields = ("accumulate",)

    def options(self, recipe: Recipe, here: Here) -> list[Changes]:
        counts = (recipe.accumulate * factor for factor in (4, 2))
        return [{"accumulate": count} for count in counts if recipe.batch % count == 0 and recipe.batch // count > 1]

    def why_not(self, recipe: Recipe, here: Here) -> str:
        return f"a batch of {recipe.batch} in {recipe.accumulate} pieces cannot be split further"
