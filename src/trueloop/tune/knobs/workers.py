"""Processes that load batches, how far ahead, and whether into pinned memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, final

from trueloop.recipe.recipe import Recipe
from trueloop.results.tune import Changes
from trueloop.tune.knob import Knob
from trueloop.tune.machine_facts import Here

__all__ = ["Workers"]


@final
class Workers(Knob):
    name = "workers"
    expected: ClassVar[Mapping[str, float]] = {"cuda": 3.5, "cpu": 1.8}
    helps = ("throughput", "latency")
    fields = ("workers", "prefetch", "pin")

    def options(self, recipe: Recipe, here: Here) -> list[Changes]:
        if self._resident(recipe, here):
            return []
        counts = sorted({1, 2, here.cores // 2, here.cores, min(16, 2 * here.cores)} - {0, recipe.workers})
        found: list[Changes] = [{"workers": count} for count in counts]
        if recipe.workers:
            found += [{"prefetch": count} for count in (4, 8) if count > recipe.prefetch]
        if here.device == "cuda":
            found.append({"pin": not recipe.pin})
        return found

    def why_not(self, recipe: Recipe, here: Here) -> str:
        return "the data are resident: there is nothing to load"

    def _resident(self, recipe: Recipe, here: Here) -> bool:
        return recipe.where == "resident" or (recipe.where == "auto" and here.data_fit)
