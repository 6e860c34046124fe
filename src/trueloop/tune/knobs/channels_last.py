"""Images in channels-last memory format."""

from typing import final

from trueloop.recipe.recipe import Recipe
from trueloop.results.tune import Changes
from trueloop.tune.knob import Knob
from trueloop.tune.machine_facts import MachineFacts

__all__ = ["ChannelsLast"]


@final
class ChannelsLast(Knob):
    name = "channels last"
    on_cuda = 1.3
    on_cpu = 1.4
    fields = ("channels_last",)

    def options(self, recipe: Recipe, facts: MachineFacts) -> list[Changes]:
        return [{"channels_last": not recipe.channels_last}] if facts.convolutions else []

    def why_not(self, recipe: Recipe, facts: MachineFacts) -> str:
        return "the model has no nn.Conv2d"
