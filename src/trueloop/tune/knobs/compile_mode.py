"""torch.compile."""

from typing import Final, final

from trueloop.recipe.recipe import Recipe
from trueloop.results.tune import Changes
from trueloop.tune.knob import Knob
from trueloop.tune.machine_facts import MachineFacts

__all__ = ["CompileMode"]

LONG: Final = 0.02  # Seconds per step in fp32: above this, launch overhead is negligible


@final
class CompileMode(Knob):
    name = "compile"
    on_cuda = 2.0
    on_cpu = 1.3
    helps = ("throughput", "latency", "memory")
    fields = ("compile",)

    def options(self, recipe: Recipe, facts: MachineFacts) -> list[Changes]:
        if facts.compiler:
            return []
        launches = facts.device == "cuda" and recipe.program != "cuda_graphs" and facts.step_seconds <= LONG
        modes = ["default", "reduce-overhead"] if launches else ["default"]
        return [{"compile": mode} for mode in modes if mode != recipe.compile]

    def why_not(self, recipe: Recipe, facts: MachineFacts) -> str:
        return facts.compiler or f"compile={recipe.compile} is the only useful mode on {facts.device}"
