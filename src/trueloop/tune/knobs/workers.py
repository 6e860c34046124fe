"""Loader processes, prefetching, and pinned memory."""

from typing import final

from trueloop.recipe.recipe import Recipe
from trueloop.results.tune import Changes
from trueloop.tune.knob import Knob
from trueloop.tune.machine_facts import MachineFacts

__all__ = ["Workers"]


@final
class Workers(Knob):
    name = "workers"
    on_cuda = 3.5
    on_cpu = 1.8
    helps = ("throughput", "latency")
    fields = ("workers", "prefetch", "pin")

    def options(self, recipe: Recipe, facts: MachineFacts) -> list[Changes]:
        if self._resident(recipe, facts):
            return []
        counts = sorted({1, 2, facts.cores // 2, facts.cores, min(16, 2 * facts.cores)} - {0, recipe.workers})
        found: list[Changes] = [{"workers": count} for count in counts]
        if recipe.workers:
            found += [{"prefetch": count} for count in (4, 8) if count > recipe.prefetch]
        if facts.device == "cuda":
            found.append({"pin": not recipe.pin})
        return found

    def why_not(self, recipe: Recipe, facts: MachineFacts) -> str:
        return "the data are resident: there is no loader"

    def _resident(self, recipe: Recipe, facts: MachineFacts) -> bool:
        return recipe.where == "resident" or (recipe.where == "auto" and facts.data_fit)
