"""OPT114 weights-decayed-away: weight decay shrinks the weights towards zero faster than the gradients hold them.

What it sees
------------
The norm of the weight matrices at the first step and at the end of the run. It fell to a fraction, and the weight decay
times the learning rate times the number of steps explains it.

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
Not reported: norms that keep more than a quarter, a decay below 0.1, and fewer than 40 steps.
"""

from typing import Final

from trueloop.event import OptimizerSettings
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["WeightsDecayedAway"]

STEPS: Final = 40
KEPT: Final = 0.25
DECAY: Final = 0.1


class WeightsDecayedAway(Rule, code="OPT114", severity=Severity.WARNING):
    not_applicable = "no optimizer step was taken"

    def on_optimizer_settings(self, event: OptimizerSettings) -> Findings:
        if event.steps < STEPS or event.weight_decay < DECAY or event.first_norm <= 0:
            return
        if event.last_norm >= KEPT * event.first_norm:
            return
        yield self.finding(
            event,
            f"The norm of the weights fell from {event.first_norm:.3g} to {event.last_norm:.3g} in {event.steps} steps "
            f"at `weight_decay={event.weight_decay:g}`, `lr={event.highest_rate:g}`.",
            fix="Lower `weight_decay` (1e-4 to 0.1 are usual).",
            evidence={"first_norm": event.first_norm, "last_norm": event.last_norm,
                      "weight_decay": event.weight_decay, "learning_rate": event.highest_rate, "steps": event.steps},
        )  # fmt: skip
