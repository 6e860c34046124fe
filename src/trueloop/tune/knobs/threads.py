"""CPU threads per operation: on a small or busy machine, or with small layers, fewer may be faster."""

from typing import final

from trueloop.recipe.recipe import Recipe
from trueloop.results.tune import Changes
from trueloop.tune.knob import Knob
from trueloop.tune.machine_facts import MachineFacts

__all__ = ["Threads"]


@final
class Threads(Knob):
    name = "threads"
    on_cpu = 1.6
    helps = ("throughput", "latency")
    fields = ("threads",)

    def options(self, recipe: Recipe, facts: MachineFacts) -> list[Changes]:
        if facts.device != "cpu":
            return []
        counts = dict.fromkeys((facts.threads, facts.cores, 1, max(1, facts.cores // 2)))
        now = recipe.threads or facts.threads
        # 0: torch's default.
        return [{"threads": 0 if count == facts.threads else count} for count in counts if count != now]

    def why_not(self, recipe: Recipe, facts: MachineFacts) -> str:
        return "the device does the work" if facts.device != "cpu" else "there is only one core"
