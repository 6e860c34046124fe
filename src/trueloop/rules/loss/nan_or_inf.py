"""LOS110 nan-or-inf: the loss or a gradient is NaN or Inf; the finding says where the first one appeared.

What it sees
------------
The loss before each backward, and some gradients before each step. At the first NaN or Inf, the batch and the weights
are checked, then each operation of the model (by running the forward again on copies), then the operations between the
output and the loss.

Why it hurts
------------
A single NaN in a gradient makes all weights NaN at the next step, without an error. The rest of the run and all later
checkpoints are lost.

Evidence
--------
The origin (input, weight, layer, loss), the layer, the operation, the range of its input, the step and the learning
rate.

Use instead
-----------
Keep inputs inside the domain of the operation:

    torch.log(p.clamp(min=1e-8))
    torch.sqrt(x + 1e-8)               # the derivative of sqrt at 0 is infinite
    total / count.clamp(min=1)

When it is fine
---------------
Not reported: -inf as an attention mask; gradients that overflow under a GradScaler, which skips the step; a step that
the script skips. A step that `trueloop train` skips because of `on_nonfinite` is a warning.
"""

from typing import Final

from trueloop.event import Backward, NotFinite
from trueloop.rules.rule import Findings, Rule, Severity, facts

__all__ = ["NanOrInf"]

_FIX: Final = {
    "input": "Find the bad samples with `torch.isfinite(x)` and drop or repair them before training.",
    "weight": "An earlier step broke the weight: lower the learning rate, clip gradients, or stop at the first NaN.",
    "layer": "Keep the input in the domain of the operation (clamp, add eps). If values grow, lower the learning rate.",
    "loss": "Keep the input in the domain of the operation: `clamp` it, or add a small eps.",
    "unknown": "Run once with `torch.autograd.set_detect_anomaly(True)` to find the operation.",
}


class NanOrInf(Rule, code="LOS110", severity=Severity.ERROR):
    not_applicable = "no backward was seen"
    applies_after = (Backward,)
    explained_by = ("loss-diverges", "wrong-target-format", "nan-or-inf-in-inputs")

    def on_not_finite(self, event: NotFinite) -> Findings:
        yield self.finding(
            event,
            f"The {event.what} is {event.value} at step {event.step + 1}: {_origin(event)}.",
            fix=_FIX[event.origin],
            evidence=facts(event, "what value origin layer operation input_range step learning_rates"),
            severity=Severity.WARNING if event.skipped else None,
        )


def _origin(event: NotFinite) -> str:
    on = "" if event.input_range is None else " on values from {:.4g} to {:.4g}".format(*event.input_range)
    if event.origin == "input":
        batch = f"the {event.operation}" if event.operation else f"the input of {event.layer or 'the model'}"
        return f"{batch} already contained NaN or Inf"
    if event.origin == "weight":
        return f"the weight {event.layer} was already NaN or Inf, so an earlier step broke it"
    if event.origin == "layer":
        return f"it first appeared in {event.layer}, in {event.operation}{on}"
    if event.origin == "loss":
        derivative = "the derivative of " if event.what == "gradient" else ""
        return f"it first appeared after the model, in {derivative}{event.operation}{on}"
    return "its origin could not be found"
