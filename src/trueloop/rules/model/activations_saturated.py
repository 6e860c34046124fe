"""MDL106 activations-saturated: nearly all outputs of a hidden sigmoid or tanh lie at the ends of its range.

What it sees
------------
The outputs of sigmoid and tanh behind a hidden layer, on a few training batches spread over the run. From the first
look to the last, nine in ten of them, or more, lie within a hundredth of an end of the range (0 and 1, or -1 and 1).

Why it hurts
------------
There the curve is flat: less than a fiftieth of the gradient passes, so the layers before it hardly learn, and what the
layer hands on is little more than a sign. Inputs that were not normalised do this, and weights that start too large.

Evidence
--------
The layer, the function, the smallest share of values at the ends over all looks, and how many looks there were.

Use instead
-----------
    x = (x - mean) / std                      # inputs around zero, of size one
    nn.init.xavier_normal_(layer.weight)      # or PyTorch's default

or a normalisation layer before the activation.

When it is fine
---------------
Not reported: gates (what is multiplied into something else), the model's own outputs, whatever reaches the loss without
a further weight (codes that are meant to become binary), an input that was scaled on its way from the layer
(annealing), and layers that come to saturate only in the course of training.
"""

from __future__ import annotations

from typing import Final, final

from trueloop.event import ActivationsMeasured, LayerActivations, RunEnded
from trueloop.finding import Finding, Severity
from trueloop.rules.rule import Findings, Rule

__all__ = ["ActivationsSaturated"]

SHARE: Final = 0.9
"""Of the values, at every look. A layer whose inputs are ten times too large for it has four fifths of them there, and
still learns."""
LOOKS: Final = 5
"""At least: of a layer, from the first backward on."""
BACKWARDS: Final = 20
"""Before the latest look."""


@final
class ActivationsSaturated(Rule):
    code = "MDL106"
    name = "activations-saturated"
    severity = Severity.WARNING
    not_applicable = "no sigmoid or tanh between two layers was seen in a backward"
    explained_by = (
        "inputs-not-normalized",
        "learning-rate-too-high",
        "loss-diverges",
        "nan-or-inf",
        "nan-or-inf-in-inputs",
    )

    def __init__(self) -> None:
        self._least: dict[tuple[str, str, str], float] = {}
        self._latest: dict[tuple[str, str, str], tuple[ActivationsMeasured, LayerActivations]] = {}

    def on_activations_measured(self, event: ActivationsMeasured) -> None:
        for layer in event.layers:
            if layer.function != "relu":
                key = (layer.model, layer.layer, layer.function)
                self._least[key] = min(layer.saturated, self._least.get(key, 1.0))
                self._latest[key] = (event, layer)

    def why_not_checked(self) -> str:
        if not self._latest:
            return self.not_applicable
        return (
            ""
            if any(event.backward >= BACKWARDS for event, _ in self._latest.values())
            else f"the run has fewer than {BACKWARDS} steps"
        )

    def on_run_ended(self, end: RunEnded) -> Findings:
        for key, (event, layer) in self._latest.items():
            if self._least[key] >= SHARE and layer.measurements >= LOOKS and event.backward >= BACKWARDS:
                yield self._speak(event, layer, self._least[key])

    def _speak(self, event: ActivationsMeasured, layer: LayerActivations, least: float) -> Finding:
        return self.finding(
            event,
            f"At each of {layer.measurements} looks, {least:.0%} or more of what {layer.function} gives behind {layer.layer} in {layer.model} "
            f"lies at the ends of its range, where hardly any gradient passes.",
            fix="Bring the inputs to size one, start the weights smaller (xavier), or put a normalisation layer before the activation.",
            evidence={
                "model": layer.model,
                "layer": layer.layer,
                "function": layer.function,
                "units": layer.units,
                "least_share": least,
                "latest_share": layer.saturated,
                "looks": layer.measurements,
                "backward": event.backward,
            },
            place=layer.defined,
        )
