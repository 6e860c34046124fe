"""Steps in one piece: recorded as CUDA graphs and played several at once, or, on a CPU, compiled as one function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, final

from trueloop.recipe.recipe import Recipe
from trueloop.results.tune import Changes
from trueloop.tune.knob import Knob
from trueloop.tune.machine_facts import Here

__all__ = ["Program"]

LONG: Final = 0.02
"""Seconds of a step: launching its operations takes some milliseconds, so that graphs gain little, and are tried after
all else."""
FEW: Final = 2
"""Steps of a replay then: more gain nothing, and a long graph of a large model takes long to record."""


@final
class Program(Knob):
    name = "step program"
    expected: ClassVar[Mapping[str, float]] = {"cuda": 5.0, "cpu": 1.6}
    helps = ("throughput", "latency")
    fields = ("program", "steps_per_replay")

    def hope(self, here: Here) -> float:
        return 1.0 if here.step_seconds > LONG else super().hope(here)

    def options(self, recipe: Recipe, here: Here) -> list[Changes]:
        if self.why_not(recipe, here):
            return []
        if here.device == "cpu":
            return [{"program": "compiled_step"}]
        # A replay does not go beyond an epoch: one that is longer is never played.
        most = min(max(1, here.samples // recipe.batch), FEW if here.step_seconds > LONG else recipe.steps_per_replay)
        return [{"program": "cuda_graphs"} | ({"steps_per_replay": most} if recipe.steps_per_replay > most else {})]

    def why_not(self, recipe: Recipe, here: Here) -> str:
        if recipe.program != "eager":
            return f"the recipe has program={recipe.program} already"
        if here.device == "cpu":
            return here.compiler or (
                "" if (recipe.compile, recipe.precision) == ("off", "fp32") else "it compiles by itself, and in fp32"
            )
        if here.device != "cuda":
            return f"graphs are for CUDA devices, and this is {here.device}"
        if recipe.where == "loader" or not here.data_fit:
            return "graphs take their batches on the device, and these data come from a loader"
        return ""
