"""Kernels that torch compiles for this very model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, final

from trueloop.recipe.recipe import Recipe
from trueloop.results.tune import Changes
from trueloop.tune.knob import Knob
from trueloop.tune.machine_facts import Here

__all__ = ["Compiling"]

LONG: Final = 0.02
"""Seconds of a step in fp32: above that, launching is next to nothing of it, and there is no overhead to reduce."""


@final
class Compiling(Knob):
    name = "compile"
    expected: ClassVar[Mapping[str, float]] = {"cuda": 2.0, "cpu": 1.3}
    helps = ("throughput", "latency", "memory")
    fields = ("compile",)

    def options(self, recipe: Recipe, here: Here) -> list[Changes]:
        if here.compiler:
            return []
        launches = here.device == "cuda" and recipe.program != "cuda_graphs" and here.step_seconds <= LONG
        modes = ["default", "reduce-overhead"] if launches else ["default"]
        return [{"compile": mode} for mode in modes if mode != recipe.compile]

    def why_not(self, recipe: Recipe, here: Here) -> str:
        return here.compiler or f"compile={recipe.compile} is the only mode that is of use on {here.device}"
