"""tf32 and fp16 on CUDA devices, bf16 where the hardware supports it."""

from typing import final

from trueloop.recipe.recipe import Recipe
from trueloop.results.tune import Changes
from trueloop.tune.knob import Knob
from trueloop.tune.machine_facts import MachineFacts

__all__ = ["Precision"]


@final
class Precision(Knob):
    name = "precision"
    on_cuda = 3.0
    on_cpu = 1.5
    fields = ("precision",)

    def options(self, recipe: Recipe, facts: MachineFacts) -> list[Changes]:
        if recipe.precision in ("bf16", "fp16"):
            return []
        found = ["bf16"] if facts.native_bf16 else []
        if facts.device == "cuda":
            found += ["tf32", "fp16"] if recipe.program == "eager" else ["tf32"]  # no GradScaler inside a graph
        return [{"precision": name} for name in found if name != recipe.precision]

    def why_not(self, recipe: Recipe, facts: MachineFacts) -> str:
        if recipe.precision in ("bf16", "fp16"):
            return f"the recipe uses {recipe.precision} already"
        if facts.device == "cpu":
            return "this CPU has no bf16 in hardware; in software it is some fifty times slower than fp32"
        return f"{facts.device} has no faster precision than {recipe.precision}"
