"""torch.compile with max-autotune: several versions of each kernel are tried, for minutes."""

from typing import final

from trueloop.recipe.recipe import Recipe
from trueloop.results.tune import Changes
from trueloop.tune.knob import Knob
from trueloop.tune.machine_facts import MachineFacts

__all__ = ["AutotunedKernels"]


@final
class AutotunedKernels(Knob):
    name = "autotuned kernels"
    on_cuda = 0.9
    helps = ("throughput", "latency")
    fields = ("compile",)

    def options(self, recipe: Recipe, facts: MachineFacts) -> list[Changes]:
        # Without CUDA graphs: the step program and reduce-overhead try these.
        return [] if self.why_not(recipe, facts) else [{"compile": "max-autotune-no-cudagraphs"}]

    def why_not(self, recipe: Recipe, facts: MachineFacts) -> str:
        if facts.device != "cuda":
            return f"it is for CUDA devices, and this is {facts.device}"
        if facts.compiler:
            return facts.compiler
        return "" if recipe.compile == "default" else "torch.compile gains nothing here"
