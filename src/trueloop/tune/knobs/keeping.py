"""Activations kept where a recipe computes them again: faster, if they fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, final

from trueloop.recipe.recipe import Recipe
from trueloop.results.tune import Changes
from trueloop.tune.knob import Knob
from trueloop.tune.machine_facts import Here

__all__ = ["Keeping"]


@final
class Keeping(Knob):
    name = "activations kept"
    expected: ClassVar[Mapping[str, float]] = {"cuda": 1.3, "cpu": 1.3}
    helps = ("throughput", "latency")
    fields = ("activation_checkpointing",)

    def options(self, recipe: Recipe, here: Here) -> list[Changes]:
        return [{"activation_checkpointing": False}] if recipe.activation_checkpointing else []

    def why_not(self, recipe: Recipe, here: Here) -> str:
        return "the recipe keeps them already"
