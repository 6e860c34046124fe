"""DAT106 nan-or-inf-in-inputs: a batch contains NaN or Inf, and it reaches the loss or a metric.

What it sees
------------
When a loss or gradient is NaN or Inf, the inputs of the model and of the loss function are checked first: the NaN or
Inf was already there. Some batches of each loader are also checked as they are drawn. If such a batch is used for a
loss or a decision (argmax), it is reported, in an evaluation too.

Why it hurts
------------
One NaN in one sample makes the loss NaN, the gradient NaN, and after the step every weight NaN, without an error. In an
evaluation, argmax turns it into an ordinary class, and the accuracy counts it.

Evidence
--------
The tensor, the sample within the batch, the batch and the loader, NaN or Inf, and the module or function it entered.

Use instead
-----------
    table = table.dropna()                                  # or fill it, before the split
    x = torch.nan_to_num(x, nan=0.0)                        # if a missing value means zero
    assert torch.isfinite(x).all(), index                   # in the dataset: which sample it is

When it is fine
---------------
Not reported: NaN as a marker for missing values that the model or the loss replaces or masks, so that outputs and
losses stay finite; -inf in masks; batches that the script skips when their loss is not finite.
"""

from typing import Final

from trueloop.event import Backward, InputNotFinite, NotFinite
from trueloop.rules.rule import Findings, Rule, Severity, facts

__all__ = ["NanOrInfInInputs"]

_FIX: Final = "Find the bad samples with `torch.isfinite(x)` and drop or repair them before training."


class NanOrInfInInputs(Rule, code="DAT106", severity=Severity.ERROR):
    not_applicable = "no batch was trained on"
    applies_after = (Backward,)

    def on_input_not_finite(self, event: InputNotFinite) -> Findings:
        others = "" if event.bad_samples == 1 else f" and {event.bad_samples - 1} more"
        result = "evaluation result" if event.evaluating else "loss"
        yield self.finding(
            event,
            f"Batch {event.index + 1} of epoch {event.passes} contains {event.value} in sample {event.sample}{others} "
            f"of {event.size} (tensor {event.tensor}). It entered {event.into}, so the {result} is not finite.",
            fix=_FIX,
            evidence=facts(
                event, "tensor sample bad_samples batch=index epoch=passes loader value entered=into evaluating"
            ),
        )

    def on_not_finite(self, event: NotFinite) -> Findings:
        if event.origin != "input":
            return
        target = event.operation.endswith("target")
        into = event.operation.removesuffix(", target") if target else event.layer
        what = f"The target of {into}" if target else f"The input of {into}" if into else "The batch"
        which = "" if event.batch is None else f" of batch {event.batch + 1} of the epoch"
        sample = "" if event.sample is None else f", in sample {event.sample}{which}"
        yield self.finding(
            event,
            f"{what} contained NaN or Inf at step {event.step + 1}{sample}: the {event.what} is {event.value}.",
            fix=_FIX,
            evidence=facts(
                event,
                "tensor sample batch loader value entered range=input_range step",
                tensor="target" if target else "input",
                entered=into,
            ),
            severity=Severity.WARNING if event.skipped else None,
        )
