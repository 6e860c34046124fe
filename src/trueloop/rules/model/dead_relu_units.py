"""MDL105 dead-relu-units: most units of a ReLU layer are zero for every sample.

What it sees
------------
The outputs of ReLUs after hidden layers, on a few training batches spread over the run. At least 80% of the units of
one layer were zero for every sample in every batch checked in the last three quarters of the run.

Why it hurts
------------
A ReLU that is always zero passes no gradient, so it never recovers (dying ReLU): the layer computes with the remaining
units and training pays for all. Usual causes are a strongly negative initial bias and a too high learning rate.

Evidence
--------
The layer, its number of units, how many are dead, the number of batches checked, and the last of them.

Use instead
-----------
    nn.init.zeros_(layer.bias)                                  # or PyTorch's default
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)    # a lower learning rate, or warmup
    nn.LeakyReLU(), nn.GELU()                                   # also pass a gradient for negative inputs

When it is fine
---------------
Not reported: layers with few units, less than 80% dead units (with very similar inputs half of a random layer is always
off), units whose weights are all zero (pruned), activations that a penalty makes sparse (sparse autoencoders), model
outputs, and runs of fewer than 20 steps. Units that recover before the run ends are alive.
"""

from typing import Final

from trueloop.event import ActivationsMeasured, LayerActivations, RunEnded
from trueloop.rules.rule import Finding, Findings, Rule, Severity, facts

__all__ = ["DeadReluUnits"]

SHARE: Final = 0.8
"""Share of a layer's units. With very similar inputs, half of a random layer's units are off for all samples."""
UNITS: Final = 24  # Units needed: with 24, that chance alone turns off 80% in less than one layer in a thousand
BACKWARDS: Final = 20  # Backwards needed before the last check: many units recover after the first steps


class DeadReluUnits(Rule, code="MDL105", severity=Severity.WARNING):
    not_applicable = "no ReLU behind a layer was seen in a backward"
    explained_by = (
        "learning-rate-too-high",
        "loss-diverges",
        "nan-or-inf",
        "symmetric-initialization",
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
        enough = any(event.backward >= BACKWARDS for event, _ in self._latest.values())
        return "" if enough else f"the run has fewer than {BACKWARDS} steps"

    def on_run_ended(self, end: RunEnded) -> Findings:
        for event, layer in self._latest.values():
            if layer.units >= UNITS and layer.dead >= SHARE * layer.units and event.backward >= BACKWARDS:
                yield self._report(event, layer)

    def _report(self, event: ActivationsMeasured, layer: LayerActivations) -> Finding:
        return self.finding(
            event,
            f"{layer.dead} of the {layer.units} ReLU units after {layer.layer} in {layer.model} are dead: zero for "
            f"every sample in all checks up to backward {event.backward}.",
            fix="Initialize the bias to zero, lower the learning rate or add warmup, or use `nn.LeakyReLU`.",
            evidence=facts(
                layer,
                "model layer units dead share checks=measurements values_per_unit=observations",
                share=layer.dead / layer.units,
                backward=event.backward,
            ),
            place=layer.defined,
        )
