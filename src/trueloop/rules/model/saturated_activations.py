"""MDL106 saturated-activations: nearly all outputs of a hidden sigmoid or tanh are at the limits of its range.

What it sees
------------
The outputs of sigmoid and tanh after a hidden layer, on a few training batches spread over the run. In every batch
checked, at least 90% of them are within 0.01 of a limit (0 and 1, or -1 and 1).

Why it hurts
------------
The function is flat there: less than 2% of the gradient passes, so earlier layers hardly learn, and the output carries
little more than a sign. Usual causes are inputs that are not normalized and initial weights that are too large.

Evidence
--------
The layer, the function, the smallest share of saturated values over all checks, and the number of checks.

Use instead
-----------
    x = (x - mean) / std                      # inputs with mean 0 and standard deviation 1
    nn.init.xavier_normal_(layer.weight)      # or PyTorch's default

or a normalization layer before the activation.

When it is fine
---------------
Not reported: gates (outputs that are multiplied with another tensor), the model's own outputs, activations that reach
the loss without a further weight (codes meant to become binary), inputs that are scaled after the layer (annealing),
and layers that saturate only later in training.
"""

from typing import Final

from trueloop.event import ActivationsMeasured, LayerActivations, RunEnded
from trueloop.rules.rule import Finding, Findings, Rule, Severity, facts

__all__ = ["SaturatedActivations"]

SHARE: Final = 0.9
"""Share of the values, in every check. A layer whose inputs are ten times too large reaches 0.8 and still learns."""
LOOKS: Final = 5  # Checks of a layer needed, from the first backward on
BACKWARDS: Final = 20  # Backwards needed before the last check


class SaturatedActivations(Rule, code="MDL106", severity=Severity.WARNING):
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
        enough = any(event.backward >= BACKWARDS for event, _ in self._latest.values())
        return "" if enough else f"the run has fewer than {BACKWARDS} steps"

    def on_run_ended(self, end: RunEnded) -> Findings:
        for key, (event, layer) in self._latest.items():
            if self._least[key] >= SHARE and layer.measurements >= LOOKS and event.backward >= BACKWARDS:
                yield self._report(event, layer, self._least[key])

    def _report(self, event: ActivationsMeasured, layer: LayerActivations, least: float) -> Finding:
        return self.finding(
            event,
            f"`{layer.function}` after {layer.layer} in {layer.model} is saturated: at least {least:.0%} of its "
            f"outputs were at the limits of its range in all {layer.measurements} checks. Almost no gradient passes.",
            fix="Normalize the inputs, use smaller initial weights (`nn.init.xavier_normal_`), or add a normalization "
            "layer before the activation.",
            evidence=facts(
                layer,
                "model layer function units least_share latest_share=saturated checks=measurements",
                least_share=least,
                backward=event.backward,
            ),
            place=layer.defined,
        )
