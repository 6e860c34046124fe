"""A training step as one program: CUDA graphs that replay several steps, or, on a CPU, one compiled function."""

from typing import Final, final

from trueloop.recipe.recipe import Recipe
from trueloop.results.tune import Changes
from trueloop.tune.knob import Knob
from trueloop.tune.machine_facts import MachineFacts

__all__ = ["StepProgram"]

LONG: Final = 0.02  # Seconds per step: above this, launch overhead is small, so graphs are tried last
FEW: Final = 2  # Steps per replay for such models: a long graph takes long to record


@final
class StepProgram(Knob):
    name = "step program"
    on_cuda = 5.0
    on_cpu = 1.6
    helps = ("throughput", "latency")
    fields = ("program", "steps_per_replay")

    def hope(self, facts: MachineFacts) -> float:
        return 1.0 if facts.step_seconds > LONG else super().hope(facts)

    def options(self, recipe: Recipe, facts: MachineFacts) -> list[Changes]:
        if self.why_not(recipe, facts):
            return []
        if facts.device == "cpu":
            return [{"program": "compiled_step"}]
        # A replay cannot be longer than an epoch.
        most = min(max(1, facts.samples // recipe.batch), FEW if facts.step_seconds > LONG else recipe.steps_per_replay)
        return [{"program": "cuda_graphs"} | ({"steps_per_replay": most} if recipe.steps_per_replay > most else {})]

    def why_not(self, recipe: Recipe, facts: MachineFacts) -> str:
        if recipe.program != "eager":
            return f"the recipe has program={recipe.program} already"
        if facts.device == "cpu":
            eager = (recipe.compile, recipe.precision) == ("off", "fp32")
            return facts.compiler or ("" if eager else "the recipe compiles already, or is not in fp32")
        if facts.device != "cuda":
            return f"CUDA graphs need a CUDA device, and this is {facts.device}"
        if recipe.where == "loader" or not facts.data_fit:
            return "CUDA graphs need resident data, and these come from a loader"
        return ""
