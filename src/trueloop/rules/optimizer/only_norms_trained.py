"""OPT118 only-norms-trained: only normalization layers and biases train; weight matrices keep their initial values.

What it sees
------------
All trainable parameters of a model are gains and biases. Its weight matrices require no gradient, no state was loaded
into some of them, no optimizer has trained them before, and the loss did not fall.

Why it hurts
------------
Random matrices stay random, the new head among them: the model can only shift and scale what they compute. The loss
stays near chance. The usual cause is a condition on names that freezes more than was meant.

Evidence
--------
The frozen matrices, the number of trained parameters, and the first and last losses.

Use instead
-----------
    for name, p in model.named_parameters():
        p.requires_grad = "bn" in name or name.startswith("head")

When it is fine
---------------
Not reported: models whose matrices were all loaded from a checkpoint or trained before (tuning norms or biases only),
models of libraries that load weights themselves, and a loss that falls.
"""

from statistics import median
from typing import Final

from trueloop.event import FrozenWeights, LossCurve, RunEnded, Stepped
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["OnlyNormsTrained"]

FALLEN: Final = 0.7


class OnlyNormsTrained(Rule, code="OPT118", severity=Severity.WARNING):
    not_applicable = "no optimizer step was seen"

    def __init__(self) -> None:
        self._found: list[FrozenWeights] = []
        self._loss: LossCurve | None = None

    def on_stepped(self, event: Stepped) -> None:
        """A run with steps was checked."""

    def on_frozen_weights(self, event: FrozenWeights) -> None:
        self._found.append(event)

    def on_loss_curve(self, event: LossCurve) -> None:
        self._loss = event

    def on_run_ended(self, _: RunEnded) -> Findings:
        if self._loss is None or self._loss.below_zero or self._loss.end < FALLEN * median(self._loss.first):
            return
        for event in self._found:
            yield self.finding(
                event,
                f"Only {event.trained} gains and biases of {event.model} train: {event.count} weight matrices "
                f"({', '.join(event.frozen[:3])}) stay at their initial values. The loss went from "
                f"{median(self._loss.first):.4g} to {self._loss.end:.4g}.",
                fix="Leave `requires_grad=True` on the layers that should learn, the head at least.",
                evidence={"model": event.model, "frozen": list(event.frozen), "values": event.values,
                          "trained": event.trained},
            )  # fmt: skip
