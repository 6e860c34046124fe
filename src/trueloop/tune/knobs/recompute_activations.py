"""Activation checkpointing: less memory, more time."""

from typing import final

from trueloop.recipe.recipe import Recipe
from trueloop.results.tune import Changes
from trueloop.tune.knob import Knob
from trueloop.tune.machine_facts import MachineFacts

__all__ = ["RecomputeActivations"]


@final
class RecomputeActivations(Knob):
    name = "activation checkpointing"
    on_cuda = 1.4
    on_cpu = 1.4
    helps = ("memory",)
    fields = ("activation_checkpointing",)

    def options(self, recipe: Recipe, facts: MachineFacts) -> list[Changes]:
        return [] if self.why_not(recipe, facts) else [{"activation_checkpointing": True}]

    def why_not(self, recipe: Recipe, facts: MachineFacts) -> str:
        if recipe.activation_checkpointing:
            return "the recipe uses it already"
        return "" if facts.blocks else "the model has no repeated blocks"
