"""LOS110 nan-or-inf: a loss or a gradient is no number any more; says where the first one arose.

What it sees
------------
The loss is looked at before each backward, some gradients before each step. At the first nan or infinity the batch, the
weights, and, by running the forward once more on copies, each operation of the model are looked at, then the operations
between the output and the loss.

Why it hurts
------------
One nan in a gradient makes every weight nan in the next step, without an error: all that follows is lost, and so are
checkpoints written after it.

Evidence
--------
Where it arose (input, weight, layer, loss), the layer, the operation, the range of what went into it, the step and the
learning rate.

Use instead
-----------
Keep what goes in inside the operation's domain:

    torch.log(p.clamp(min=1e-8))
    torch.sqrt(x + 1e-8)               # the slope of sqrt at 0 is infinite
    total / count.clamp(min=1)

When it is fine
---------------
Minus infinity as a mask in attention scores; gradients that overflow under a GradScaler, which skips the step; a step
that the script itself skips. A step that `trueloop train` skips, as asked by `on_nonfinite`, is a warning.
"""

from __future__ import annotations

from typing import Final, final

from trueloop.event import Backward, NotFinite
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule

__all__ = ["NanOrInf"]

_FIX: Final = {
    "input": "Clean the data before it enters: find the rows with torch.isfinite, and drop or repair them.",
    "weight": "Look at the step before: lower the learning rate, clip the gradients, or stop at the first loss that is no number.",
    "layer": "Keep what goes into the operation inside its domain (clamp, add a constant), or lower the learning rate if values grow.",
    "loss": "Keep what goes into the operation inside its domain: clamp it, or add a small constant.",
    "unknown": "Run once with torch.autograd.set_detect_anomaly(True) to see the operation.",
}


@final
class NanOrInf(Rule):
    code = "LOS110"
    name = "nan-or-inf"
    severity = Severity.ERROR
    not_applicable = "no backward was seen"
    explained_by = ("loss-diverges", "wrong-target-format", "nan-or-inf-in-inputs")

    def on_backward(self, event: Backward) -> None:
        """Each was looked at: a run that has none to report has been judged."""

    def on_not_finite(self, event: NotFinite) -> Findings:
        yield self.finding(
            event,
            f"The {event.what} is {event.value} at step {event.step + 1}: {_origin(event)}.",
            fix=_FIX[event.origin],
            evidence={
                "what": event.what,
                "value": event.value,
                "origin": event.origin,
                "layer": event.layer,
                "operation": event.operation,
                "input_range": event.input_range,
                "step": event.step,
                "learning_rates": list(event.learning_rates),
            },
            severity=Severity.WARNING if event.skipped else None,
        )


def _origin(event: NotFinite) -> str:
    given = (
        ""
        if event.input_range is None
        else f", given values from {event.input_range[0]:.4g} to {event.input_range[1]:.4g}"
    )
    if event.origin == "input":
        into = f"the {event.operation}" if event.operation else f"the batch that entered {event.layer}"
        return f"{into} already held values that are no numbers"
    if event.origin == "weight":
        return f"the weight {event.layer} was no number any more, so an earlier step wrote it"
    if event.origin == "layer":
        return f"it arose in {event.layer}, in {event.operation}{given}"
    if event.origin == "loss":
        slope = "the slope of " if event.what == "gradient" else ""
        return f"it arose after the model, in {slope}{event.operation}{given}"
    return "where it arose could not be seen"
