"""Images with their channels side by side in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, final

from trueloop.recipe.recipe import Recipe
from trueloop.results.tune import Changes
from trueloop.tune.knob import Knob
from trueloop.tune.machine_facts import Here

__all__ = ["ChannelsLast"]


@final
class ChannelsLast(Knob):
    name = "channels last"
    expected: ClassVar[Mapping[str, float]] = {"cuda": 1.3, "cpu": 1.4}
    fields = ("channels_last",)

    def options(self, recipe: Recipe, here: Here) -> list[Changes]:
        return [{"channels_last": not recipe.channels_last}] if here.convolutions else []

    def why_not(self, recipe: Recipe, here: Here) -> str:
        return "the model has no convolutions over images"
