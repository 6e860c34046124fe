"""Activation checkpointing off: faster, if the activations fit into memory."""

from typing import final

from trueloop.recipe.recipe import Recipe
from trueloop.results.tune import Changes
from trueloop.tune.knob import Knob
from trueloop.tune.machine_facts import MachineFacts

__all__ = ["KeepActivations"]


@final
class KeepActivations(Knob):
    name = "activations kept"
    on_cuda = 1.3
    on_cpu = 1.3
    helps = ("throughput", "latency")
    fields = ("activation_checkpointing",)

    def options(self, recipe: Recipe, facts: MachineFacts) -> list[Changes]:
        return [{"activation_checkpointing": False}] if recipe.activation_checkpointing else []

    def why_not(self, recipe: Recipe, facts: MachineFacts) -> str:
        return "the recipe does not use activation checkpointing"
