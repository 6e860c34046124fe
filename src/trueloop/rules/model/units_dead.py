"""MDL105 units-dead: most units of a ReLU layer are zero for every sample, and stay so.

What it sees
------------
The outputs of the ReLUs behind hidden layers, on a few training batches spread over the run. Four units in five, or
more, of one layer were zero for every sample of every batch looked at in the last three quarters of the run.

Why it hurts
------------
A ReLU that is never on passes no gradient back, so nothing brings it to life again: the layer computes with what is
left of it, and training pays for all of it. A first bias far below zero does this, and so does a learning rate that
throws the weights too far in one step.

Evidence
--------
The layer, its units, how many of them are dead, the batches looked at, and the last of them.

Use instead
-----------
    nn.init.zeros_(layer.bias)                                  # or PyTorch's default
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)    # smaller steps, or a warm-up
    nn.LeakyReLU(), nn.GELU()                                   # pass some gradient on the other side too

When it is fine
---------------
Not reported: layers of few units, less than four fifths of them (half of a random layer is off for good where its
inputs are much alike), units whose weights are all zero (pruned), activations that something asks to be sparse (a
penalty on them, sparse autoencoders), what comes out of the model, and runs of fewer than twenty steps. Units that come
back before the run ends are alive.
"""

from __future__ import annotations

from typing import Final, final

from trueloop.event import ActivationsMeasured, LayerActivations, RunEnded
from trueloop.finding import Finding, Severity
from trueloop.rules.rule import Findings, Rule

__all__ = ["UnitsDead"]

SHARE: Final = 0.8
"""Of a layer's units. Where all inputs are much alike, each unit of a random layer is on for all or off for all, half
and half."""
UNITS: Final = 24
"""Of a layer, at least: by that chance alone, four fifths of twenty-four are off in fewer than one layer in a
thousand."""
BACKWARDS: Final = 20
"""Before the latest look: in the first steps of a run much is off that comes on later."""


@final
class UnitsDead(Rule):
    code = "MDL105"
    name = "units-dead"
    severity = Severity.WARNING
    not_applicable = "no ReLU behind a layer was seen in a backward"
    explained_by = (
        "learning-rate-too-high",
        "loss-diverges",
        "nan-or-inf",
        "units-start-equal",
        "inputs-not-normalized",
        "nan-or-inf-in-inputs",
    )

    def __init__(self) -> None:
        self._latest: dict[tuple[str, str], tuple[ActivationsMeasured, LayerActivations]] = {}

    def on_activations_measured(self, event: ActivationsMeasured) -> None:
        for layer in event.layers:
            if layer.function == "relu":
                self._latest[layer.model, layer.layer] = (event, layer)

    def why_not_checked(self) -> str:
        if not self._latest:
            return self.not_applicable
        return (
            ""
            if any(event.backward >= BACKWARDS for event, _ in self._latest.values())
            else f"the run has fewer than {BACKWARDS} steps"
        )

    def on_run_ended(self, end: RunEnded) -> Findings:
        for event, layer in self._latest.values():
            if layer.units >= UNITS and layer.dead >= SHARE * layer.units and event.backward >= BACKWARDS:
                yield self._speak(event, layer)

    def _speak(self, event: ActivationsMeasured, layer: LayerActivations) -> Finding:
        return self.finding(
            event,
            f"{layer.dead} of the {layer.units} ReLU units behind {layer.layer} in {layer.model} were zero for every sample, "
            f"at every look up to backward {event.backward}.",
            fix="Start the layer's bias at zero, take smaller steps or a warm-up, or use an activation that is never flat (LeakyReLU).",
            evidence={
                "model": layer.model,
                "layer": layer.layer,
                "units": layer.units,
                "dead": layer.dead,
                "share": layer.dead / layer.units,
                "looks": layer.measurements,
                "values_per_unit": layer.observations,
                "backward": event.backward,
            },
            place=layer.defined,
        )
