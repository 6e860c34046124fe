"""The optimizer step as one fused kernel."""

from typing import final

from trueloop.recipe.recipe import Recipe
from trueloop.results.tune import Changes
from trueloop.tune.knob import Knob
from trueloop.tune.machine_facts import MachineFacts

__all__ = ["FusedOptimizer"]


@final
class FusedOptimizer(Knob):
    name = "fused optimizer"
    on_cuda = 1.6
    on_cpu = 1.3
    helps = ("throughput", "latency")
    fields = ("optimizer_options",)

    def options(self, recipe: Recipe, facts: MachineFacts) -> list[Changes]:
        if self.why_not(recipe, facts):
            return []
        others = {name: value for name, value in recipe.optimizer_options.items() if name not in ("fused", "foreach")}
        return [{"optimizer_options": {**others, "fused": True}}]

    def why_not(self, recipe: Recipe, facts: MachineFacts) -> str:
        if not facts.can_fuse:
            shown = recipe.optimizer if isinstance(recipe.optimizer, str) else "the recipe's own optimizer"
            return f"{shown} has no fused step on {facts.device}"
        if recipe.optimizer_options.get("fused") is True or not {"fused", "foreach", "differentiable"} & set(
            recipe.optimizer_options
        ):
            return "the optimizer step is fused already"
        return "the optimizer must be differentiable" if recipe.optimizer_options.get("differentiable") else ""
