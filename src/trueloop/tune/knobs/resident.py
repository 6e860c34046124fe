"""All samples as tensors on the device, instead of a loader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, final

from trueloop.recipe.recipe import Recipe
from trueloop.results.tune import Changes
from trueloop.tune.knob import Knob
from trueloop.tune.machine_facts import Here

__all__ = ["Resident"]


@final
class Resident(Knob):
    name = "resident data"
    expected: ClassVar[Mapping[str, float]] = {"cuda": 4.0, "cpu": 2.0}
    helps = ("throughput", "latency")
    fields = ("where", "workers")

    def options(self, recipe: Recipe, here: Here) -> list[Changes]:
        return [] if self.why_not(recipe, here) else [{"where": "resident", "workers": 0}]

    def why_not(self, recipe: Recipe, here: Here) -> str:
        if here.data_bytes is None:
            return "the samples are read as needed and cannot be held as tensors"
        if not here.data_fit:
            return f"the data take {here.data_bytes / 1e9:.1f} GB, which would not leave room for the training"
        return "" if recipe.where == "loader" else "the data are resident already"
