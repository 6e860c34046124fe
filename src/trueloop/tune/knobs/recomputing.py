"""Activations of the blocks computed again in the backward instead of kept: less memory, more time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, final

from trueloop.recipe.recipe import Recipe
from trueloop.results.tune import Changes
from trueloop.tune.knob import Knob
from trueloop.tune.machine_facts import Here

__all__ = ["Recomputing"]


@final
class Recomputing(Knob):
    name = "activation checkpointing"
    expected: ClassVar[Mapping[str, float]] = {"cuda": 1.4, "cpu": 1.4}
    helps = ("memory",)
    fields = ("activation_checkpointing",)

    def options(self, recipe: Recipe, here: Here) -> list[Changes]:
        return [] if self.why_not(recipe, here) else [{"activation_checkpointing": True}]

    def why_not(self, recipe: Recipe, here: Here) -> str:
        if recipe.activation_checkpointing:
            return "the recipe has it already"
        return "" if here.blocks else "the model has no repeated blocks"
