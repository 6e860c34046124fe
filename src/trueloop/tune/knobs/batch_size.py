"""The batch size. It changes the training, so it needs `--allow batch`."""

from typing import final

from trueloop.recipe.recipe import Recipe
from trueloop.results.tune import Changes
from trueloop.tune.knob import Knob
from trueloop.tune.machine_facts import MachineFacts

__all__ = ["BatchSize"]


@final
class BatchSize(Knob):
    name = "batch"
    on_cuda = 2.0
    on_cpu = 1.2
    helps = ("throughput", "latency")
    fields = ("batch",)

    def options(self, recipe: Recipe, facts: MachineFacts) -> list[Changes]:
        return [
            {"batch": size}
            for size in (recipe.batch * 2, recipe.batch * 4, recipe.batch // 2)
            if recipe.accumulate <= size <= facts.samples
        ]

    def why_not(self, recipe: Recipe, facts: MachineFacts) -> str:
        return f"there are {facts.samples:,} samples, and the batch size is {recipe.batch:,} already"
