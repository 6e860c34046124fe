"""DAT106 nan-or-inf-in-inputs: a batch holds a value that is no number, and it reaches the loss or what is measured.

What it sees
------------
When a loss or a gradient is no number any more, what went into the model and into the loss function is looked at first:
nan, or infinity, was already there. Some batches of each loader are looked at as they are drawn; if one holds such a
value, and a loss or a decision (argmax) is then taken from what the model made of it, that is told too, in an
evaluation as well.

Why it hurts
------------
One nan in one sample makes the loss nan, the gradient nan, and after the step every weight nan, without an error. In an
evaluation argmax turns it into a class like any other, and the accuracy is counted on.

Evidence
--------
The tensor of the batch, the sample inside the batch, the batch and the loader, nan or infinity, and what it went into.

Use instead
-----------
    table = table.dropna()                                  # or fill it, before the split
    x = torch.nan_to_num(x, nan=0.0)                        # if a missing value means nothing
    assert torch.isfinite(x).all(), index                   # in the dataset: which row it is

When it is fine
---------------
Not reported: nan as the sign for what is missing, where the model or the loss replaces it or leaves it out, so that
outputs and losses stay numbers; minus infinity in masks; batches that the script itself leaves out when it sees that
their loss is no number.
"""

from __future__ import annotations

from typing import Final, final

from trueloop.event import Backward, InputNotFinite, NotFinite
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule

__all__ = ["NanOrInfInInputs"]

_FIX: Final = "Clean the data before it enters: find the rows with torch.isfinite, and drop or repair them."


@final
class NanOrInfInInputs(Rule):
    code = "DAT106"
    name = "nan-or-inf-in-inputs"
    severity = Severity.ERROR
    not_applicable = "no batch was trained on"

    def on_backward(self, event: Backward) -> None:
        """Its loss was looked at: a run that has none to report has been judged."""

    def on_input_not_finite(self, event: InputNotFinite) -> Findings:
        others = "" if event.bad_samples == 1 else f" and {event.bad_samples - 1} more"
        spoilt = "what was measured on it is no number" if event.evaluating else "its loss is no number"
        yield self.finding(
            event,
            f"Batch {event.index + 1} of pass {event.passes} holds {event.value} in sample {event.sample}{others} of {event.size}, "
            f"tensor {event.tensor}, and went into {event.into}: {spoilt}.",
            fix=_FIX,
            evidence={
                "tensor": event.tensor,
                "sample": event.sample,
                "bad_samples": event.bad_samples,
                "batch": event.index,
                "pass": event.passes,
                "loader": event.loader,
                "value": event.value,
                "into": event.into,
                "evaluating": event.evaluating,
            },
        )

    def on_not_finite(self, event: NotFinite) -> Findings:
        if event.origin != "input":
            return
        target = event.operation.endswith("target")
        into = event.operation.removesuffix(", target") if target else event.layer
        what = f"The target of {into}" if target else f"What went into {into}"
        which = "" if event.batch is None else f", batch {event.batch + 1} of its pass"
        sample = "" if event.sample is None else f" in sample {event.sample} of the batch"
        yield self.finding(
            event,
            f"{what} at step {event.step + 1} held values that are no numbers{sample}{which}: the {event.what} is {event.value}.",
            fix=_FIX,
            evidence={
                "tensor": "target" if target else "input",
                "sample": event.sample,
                "batch": event.batch,
                "loader": event.loader,
                "value": event.value,
                "into": into,
                "range": event.input_range,
                "step": event.step,
            },
            severity=Severity.WARNING if event.skipped else None,
        )
