"""OPT115 too-much-smoothing: momentum averages over more steps than the run has, or epsilon outweighs every gradient.

What it sees
------------
The momentum (or Adam's first beta) averages gradients over a window longer than half of the run; or Adam's epsilon is
many times larger than the gradients that it is added to.

Why it hurts
------------
With a window longer than the run, the weights still follow the first gradients when it ends. With a large epsilon,
Adam no longer adapts: its steps shrink in proportion to the gradients, and the learning rate means nothing.

Evidence
--------
The settings, the length of the window, the number of steps, and the typical size of a gradient.

Use instead
-----------
    torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.999), eps=1e-8)

When it is fine
---------------
Not reported: momentum up to 0.99, epsilon up to 1e-3, and fewer than 40 steps.
"""

from typing import Final

from trueloop.event import OptimizerSettings
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["TooMuchSmoothing"]

STEPS: Final = 40
USUAL_MOMENTUM: Final = 0.99
USUAL_EPSILON: Final = 1e-3  # agents on Atari use 1.5e-4
OUTWEIGHS: Final = 4.0


class TooMuchSmoothing(Rule, code="OPT115", severity=Severity.WARNING):
    not_applicable = "no optimizer step was taken"

    def on_optimizer_settings(self, event: OptimizerSettings) -> Findings:
        if event.steps < STEPS:
            return
        window = 1 / max(1e-9, 1 - event.momentum)
        if event.momentum > USUAL_MOMENTUM and window > event.steps / 2:
            yield self.finding(
                event,
                f"A momentum of {event.momentum:g} averages over {window:.0f} steps; the run has {event.steps}.",
                fix="Use a momentum (or first beta) of 0.9.",
                evidence={"momentum": event.momentum, "window": round(window), "steps": event.steps},
            )
        small = event.typical_gradient
        if event.epsilon is None or small is None:
            return
        if event.epsilon > max(USUAL_EPSILON, OUTWEIGHS * small):
            yield self.finding(
                event,
                f"`eps={event.epsilon:g}` is {event.epsilon / max(small, 1e-30):.0f} times the typical gradient "
                f"({small:.2g}): the steps shrink in proportion to the gradients.",
                fix="Use `eps=1e-8`, the default.",
                evidence={"epsilon": event.epsilon, "typical_gradient": small, "steps": event.steps},
            )
