"""MDL110 output-ignores-input: the model gives the same output for every sample, though the inputs differ.

What it sees
------------
What goes into the loss is compared from sample to sample, on a few batches spread over the run. After the first twenty
steps, at each of the last three looks and more, all outputs of a batch were equal to within rounding, while the inputs
were not.

Why it hurts
------------
A model that says the same of everything has learnt nothing about its inputs: it predicts the mean, or the most frequent
class, and its loss stays there. Somewhere on the way the input is lost: a softmax or a norm over a single value, a mean
over the wrong dimension, a last ReLU that is off for all, a variable that was meant to be another.

Evidence
--------
The model, the samples of the batch and how many had inputs of their own, the spread of the outputs, and their size.

Use instead
-----------
    torch.sigmoid(self.head(x))         # a softmax over one score is 1, whatever the score
    nn.Linear(64, 1)                    # as the last layer: neither a norm nor a ReLU behind a single number

When it is fine
---------------
Not reported: the first steps (zero-initialised heads), outputs that are one row expanded over a batch (a learned
deviation), sigmoids that round to exactly 0 or 1, half precision (whose rounding alone may do it), and outputs that a
loss does not use. A prediction that has shrunk to the mean by training on noise still differs in its last digits, and
is not reported either.
"""

from __future__ import annotations

from typing import Final, final

from trueloop.event import OutputsCompared, RunEnded
from trueloop.finding import Finding, Severity
from trueloop.rules.rule import Findings, Rule

__all__ = ["OutputIgnoresInput"]

ROUNDING: Final = 1e-6
"""Of the outputs' size: eight times the precision of single floats. The smallest true influence of an input lies orders
above it."""
STEPS: Final = 20
"""Before the first look that counts."""
LOOKS: Final = 3
"""In a row, up to the last one."""
DIFFERENT: Final = 0.5
"""Share of a batch whose inputs must differ from the first sample's."""


@final
class OutputIgnoresInput(Rule):
    code = "MDL110"
    name = "output-ignores-input"
    severity = Severity.WARNING
    not_applicable = "no output of a model was seen to go into a loss"
    explained_by = (
        "units-dead", "units-start-equal", "activations-saturated", "parameters-never-trained", "loss-detached-from-parameters", "loss-diverges",
        "nan-or-inf", "learning-rate-too-high", "inputs-not-normalized", "optimizer-holds-old-parameters",
    )  # fmt: skip

    def __init__(self) -> None:
        self._rows: dict[tuple[int, bool], list[OutputsCompared]] = {}
        """By model and mode: the latest looks at which all outputs were equal."""
        self._judged = False

    def why_not_checked(self) -> str:
        return "" if self._judged else f"no model was looked at after its first {STEPS} steps"

    def on_outputs_compared(self, event: OutputsCompared) -> None:
        if event.step < STEPS:
            return
        self._judged = True
        row = self._rows.setdefault((event.model, event.training), [])
        if event.spread <= ROUNDING * event.scale and event.different >= DIFFERENT * event.batch:
            row.append(event)
        else:
            row.clear()

    def on_run_ended(self, end: RunEnded) -> Findings:
        told: set[int] = set()
        for (model, _), row in self._rows.items():
            if len(row) >= LOOKS and model not in told:
                told.add(model)
                yield self._speak(row[0], row[-1], len(row))

    def _speak(self, first: OutputsCompared, last: OutputsCompared, looks: int) -> Finding:
        return self.finding(
            first,
            f"{last.name} gave all {last.batch} samples of a batch the same output at each of {looks} looks from step {first.step} to "
            f"step {last.step}, though {last.different} of them had an input of their own.",
            fix="Follow one batch through the model and find where its samples become equal: a softmax or a norm over one value, a mean "
            "over the wrong dimension, a last ReLU that is off.",
            evidence={
                "model": last.name,
                "batch": last.batch,
                "different_inputs": last.different,
                "spread": last.spread,
                "scale": last.scale,
                "looks": looks,
                "training": last.training,
                "first_step": first.step,
                "last_step": last.step,
            },
        )
