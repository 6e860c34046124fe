"""All samples as tensors on the device instead of a loader."""

from typing import final

from trueloop.recipe.recipe import Recipe
from trueloop.results.tune import Changes
from trueloop.tune.knob import Knob
from trueloop.tune.machine_facts import MachineFacts

__all__ = ["ResidentData"]


@final
class ResidentData(Knob):
    name = "resident data"
    on_cuda = 4.0
    on_cpu = 2.0
    helps = ("throughput", "latency")
    fields = ("where", "workers")

    def options(self, recipe: Recipe, facts: MachineFacts) -> list[Changes]:
        return [] if self.why_not(recipe, facts) else [{"where": "resident", "workers": 0}]

    def why_not(self, recipe: Recipe, facts: MachineFacts) -> str:
        if facts.data_bytes is None:
            return "the samples are read on demand and cannot be held as tensors"
        if not facts.data_fit:
            return f"the data take {facts.data_bytes / 1e9:.1f} GB, which leaves no room for training"
        return "" if recipe.where == "loader" else "the data are resident already"
