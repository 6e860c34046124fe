"""How many steps a CUDA graph replays at once."""

from typing import Final, final

from trueloop.recipe.recipe import Recipe
from trueloop.results.tune import Changes
from trueloop.tune.knob import Knob
from trueloop.tune.machine_facts import MachineFacts

__all__ = ["StepsPerReplay"]

MOST: Final = 64  # Steps: more gain nothing, and a long graph takes long to record
TRIED: Final = 2


@final
class StepsPerReplay(Knob):
    name = "steps per replay"
    on_cuda = 1.2
    helps = ("throughput", "latency")
    fields = ("steps_per_replay",)

    def options(self, recipe: Recipe, facts: MachineFacts) -> list[Changes]:
        if recipe.program != "cuda_graphs":
            return []
        # A remainder of the logging interval is replayed one by one.
        most = min(MOST, facts.samples // recipe.batch)
        fitting = [steps for steps in range(4, most + 1) if recipe.log_every % steps == 0]
        chosen = dict.fromkeys([*sorted(fitting, reverse=True)[:TRIED], 32])
        return [{"steps_per_replay": steps} for steps in chosen if steps != recipe.steps_per_replay and steps <= most]

    def why_not(self, recipe: Recipe, facts: MachineFacts) -> str:
        return (
            "the program is not cuda_graphs"
            if recipe.program != "cuda_graphs"
            else "no other number fits into an epoch"
        )
