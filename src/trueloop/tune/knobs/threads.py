"""Threads of the CPU within an operation: on a small or busy machine, or with small layers, fewer may be faster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, final

from trueloop.recipe.recipe import Recipe
from trueloop.results.tune import Changes
from trueloop.tune.knob import Knob
from trueloop.tune.machine_facts import Here

__all__ = ["Threads"]


@final
class Threads(Knob):
    name = "threads"
    expected: ClassVar[Mapping[str, float]] = {"cuda": 1.0, "cpu": 1.6}
    helps = ("throughput", "latency")
    fields = ("threads",)

    def options(self, recipe: Recipe, here: Here) -> list[Changes]:
        if here.device != "cpu":
            return []
        counts = dict.fromkeys((here.threads, here.cores, 1, max(1, here.cores // 2)))
        now = recipe.threads or here.threads
        # 0 where torch takes as many by itself: then a recipe has nothing to say about them.
        return [{"threads": 0 if count == here.threads else count} for count in counts if count != now]

    def why_not(self, recipe: Recipe, here: Here) -> str:
        return "the work is done by the device" if here.device != "cpu" else "there is one core, and one thread"
