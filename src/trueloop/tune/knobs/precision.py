"""In what numbers it computes: tf32 and fp16 on CUDA devices, bf16 where the device has it in hardware."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, final

from trueloop.recipe.recipe import Recipe
from trueloop.results.tune import Changes
from trueloop.tune.knob import Knob
from trueloop.tune.machine_facts import Here

__all__ = ["Precision"]


@final
class Precision(Knob):
    name = "precision"
    expected: ClassVar[Mapping[str, float]] = {"cuda": 3.0, "cpu": 1.5}
    fields = ("precision",)

    def options(self, recipe: Recipe, here: Here) -> list[Changes]:
        if recipe.precision in ("bf16", "fp16"):
            return []
        found = ["bf16"] if here.native_bf16 else []
        if here.device == "cuda":
            found += (
                ["tf32", "fp16"] if recipe.program == "eager" else ["tf32"]
            )  # graphs cannot ask the scaler in each step
        return [{"precision": name} for name in found if name != recipe.precision]

    def why_not(self, recipe: Recipe, here: Here) -> str:
        if recipe.precision in ("bf16", "fp16"):
            return f"it computes in {recipe.precision} already"
        if here.device == "cpu":
            return "this processor has no bf16 in hardware: in software it is some fifty times slower than fp32"
        return f"there is nothing faster than {recipe.precision} for {here.device} here"
