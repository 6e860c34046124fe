"""Gradient accumulation: the same numbers with less memory. A BatchNorm sees the micro-batches, so that is refused."""

from typing import final

from trueloop.recipe.recipe import Recipe
from trueloop.results.tune import Changes
from trueloop.tune.knob import Knob
from trueloop.tune.machine_facts import MachineFacts

__all__ = ["Accumulation"]


@final
class Accumulation(Knob):
    name = "accumulation"
    on_cuda = 1.5
    on_cpu = 1.5
    helps = ("memory",)
    fields = ("accumulate",)

    def options(self, recipe: Recipe, facts: MachineFacts) -> list[Changes]:
        counts = (recipe.accumulate * factor for factor in (4, 2))
        return [{"accumulate": count} for count in counts if recipe.batch % count == 0 and recipe.batch // count > 1]

    def why_not(self, recipe: Recipe, facts: MachineFacts) -> str:
        return f"a batch of {recipe.batch} in {recipe.accumulate} micro-batches cannot be split further"
