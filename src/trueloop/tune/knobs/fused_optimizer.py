"""The optimizer's step as one operation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, final

from trueloop.recipe.recipe import Recipe
from trueloop.results.tune import Changes
from trueloop.tune.knob import Knob
from trueloop.tune.machine_facts import Here

__all__ = ["FusedOptimizer"]


@final
class FusedOptimizer(Knob):
    name = "fused optimizer"
    expected: ClassVar[Mapping[str, float]] = {"cuda": 1.6, "cpu": 1.3}
    helps = ("throughput", "latency")
    fields = ("optimizer_options",)

    def options(self, recipe: Recipe, here: Here) -> list[Changes]:
        if self.why_not(recipe, here):
            return []
        others = {name: value for name, value in recipe.optimizer_options.items() if name not in ("fused", "foreach")}
        return [{"optimizer_options": {**others, "fused": True}}]

    def why_not(self, recipe: Recipe, here: Here) -> str:
        if not here.can_fuse:
            shown = recipe.optimizer if isinstance(recipe.optimizer, str) else "the recipe's own optimizer"
            return f"{shown} has no fused step on {here.device}"
        if recipe.optimizer_options.get("fused") is True or not {"fused", "foreach", "differentiable"} & set(
            recipe.optimizer_options
        ):
            return "the optimizer's step is fused already"
        return "the optimizer is asked to be differentiable" if recipe.optimizer_options.get("differentiable") else ""
