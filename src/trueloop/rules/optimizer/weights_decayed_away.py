"""OPT114 weights-decayed-away: weight decay shrinks the weights towards zero faster than the gradients hold them.

What it sees
------------
The norm of the weight matrices at the first step and at the end of the run. It fell to a fraction, the weight decay
times the learning rate times the number of steps explains it, and the loss did not fall to half. `Adam` and its kind
add the decay to the gradient and divide by its size: there the learning rate times the number of steps explains it.

Why it hurts
------------
The model forgets faster than it learns: activations fade, the output becomes a constant, and the loss ends at chance.

Evidence
--------
Both norms, the weight decay, the learning rate and the number of steps.

Use instead
-----------
    torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)         # 1e-4 to 0.1 are usual

When it is fine
---------------
Not reported: norms that keep more than a quarter, a decay below 0.1, fewer than 40 steps, and a loss that fell to half
of its start (a sparse solution, or a slow one that generalizes late).
"""

from statistics import median
from typing import Final

from trueloop.event import LossCurve, OptimizerSettings, RunEnded
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["WeightsDecayedAway"]

STEPS: Final = 40
KEPT: Final = 0.25
DECAY: Final = 0.1
SHRINKS: Final = 1.0  # weight decay times learning rate times steps: leaves exp(-1) of a weight without gradient
FALLEN: Final = 0.5
ADAPTIVE: Final = frozenset(("Adam", "Adamax", "NAdam", "RAdam", "RMSprop", "Adagrad", "Adadelta"))
"""They add the decay to the gradient."""


class WeightsDecayedAway(Rule, code="OPT114", severity=Severity.WARNING):
    not_applicable = "no optimizer step was taken"

    def __init__(self) -> None:
        self._optimizers: list[OptimizerSettings] = []
        self._learned = False

    def on_optimizer_settings(self, event: OptimizerSettings) -> None:
        self._optimizers.append(event)

    def on_loss_curve(self, event: LossCurve) -> None:
        self._learned = not event.below_zero and event.end < FALLEN * median(event.first)

    def on_run_ended(self, _: RunEnded) -> Findings:
        for event in self._optimizers if not self._learned else ():
            yield from self._check(event)

    def _check(self, event: OptimizerSettings) -> Findings:
        if event.steps < STEPS or event.weight_decay < DECAY or event.first_norm <= 0:
            return
        if event.last_norm >= KEPT * event.first_norm:
            return
        adaptive = event.name in ADAPTIVE  # divides the decay by its own size, so each step takes off up to the rate
        if (1 if adaptive else event.weight_decay) * event.highest_rate * event.steps < SHRINKS:
            return
        yield self.finding(
            event,
            f"The norm of the weights fell from {event.first_norm:.3g} to {event.last_norm:.3g} in {event.steps} steps "
            f"at `weight_decay={event.weight_decay:g}`, `lr={event.highest_rate:g}`.",
            fix="Lower `weight_decay` (1e-4 to 0.1 are usual).",
            evidence={"first_norm": event.first_norm, "last_norm": event.last_norm,
                      "weight_decay": event.weight_decay, "learning_rate": event.highest_rate, "steps": event.steps},
        )  # fmt: skip
