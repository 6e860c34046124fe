"""Kernels of which torch's compiler tries several versions each, for minutes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, final

from trueloop.recipe.recipe import Recipe
from trueloop.results.tune import Changes
from trueloop.tune.knob import Knob
from trueloop.tune.machine_facts import Here

__all__ = ["Autotuning"]


@final
class Autotuning(Knob):
    name = "autotuned kernels"
    expected: ClassVar[Mapping[str, float]] = {"cuda": 0.9}
    helps = ("throughput", "latency")
    fields = ("compile",)

    def options(self, recipe: Recipe, here: Here) -> list[Changes]:
        # Without its graphs: those of a graphed program hold whole steps, and those of its own were tried as reduce-
        # overhead.
        return [] if self.why_not(recipe, here) else [{"compile": "max-autotune-no-cudagraphs"}]

    def why_not(self, recipe: Recipe, here: Here) -> str:
        if here.device != "cuda":
            return f"it tries kernels for CUDA devices, and this is {here.device}"
        if here.compiler:
            return here.compiler
        return (
            ""
            if recipe.compile == "default"
            else "compiling as such gains nothing here, so finer compiling is not tried"
        )
