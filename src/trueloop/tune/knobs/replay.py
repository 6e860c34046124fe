"""How many optimizer steps CUDA graphs replay at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, final

from trueloop.recipe.recipe import Recipe
from trueloop.results.tune import Changes
from trueloop.tune.knob import Knob
from trueloop.tune.machine_facts import Here

__all__ = ["Replay"]

MOST: Final = 64
"""Steps that are played at once, all of one epoch: beyond that nothing is left to gain, and a graph of many steps takes
long to record."""
TRIED: Final = 2


@final
class Replay(Knob):
    name = "steps per replay"
    expected: ClassVar[Mapping[str, float]] = {"cuda": 1.2}
    helps = ("throughput", "latency")
    fields = ("steps_per_replay",)

    def options(self, recipe: Recipe, here: Here) -> list[Changes]:
        if recipe.program != "cuda_graphs":
            return []
        # What does not divide an interval leaves a rest, which is played one by one.
        most = min(MOST, here.samples // recipe.batch)
        fitting = [steps for steps in range(4, most + 1) if recipe.log_every % steps == 0]
        chosen = dict.fromkeys([*sorted(fitting, reverse=True)[:TRIED], 32])
        return [{"steps_per_replay": steps} for steps in chosen if steps != recipe.steps_per_replay and steps <= most]

    def why_not(self, recipe: Recipe, here: Here) -> str:
        return (
            "the program is not cuda_graphs" if recipe.program != "cuda_graphs" else "nothing else fits into an epoch"
        )
