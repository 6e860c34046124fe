"""MDL110 output-ignores-input: the model gives the same output for every sample, although the inputs differ.

What it sees
------------
The tensor that goes into the loss is compared across samples, on a few batches spread over the run. After the first 20
steps, in at least the last three checks, all outputs of a batch were equal up to rounding while the inputs were not.

Why it hurts
------------
A constant prediction uses nothing of the input: the model predicts the mean or the most frequent class, and the loss
stays there. The input is lost somewhere: a softmax or a norm over a single value, a mean over the wrong dimension, a
final ReLU that is always zero, a wrong variable.

Evidence
--------
The model, the batch size, the number of samples with a different input, and the spread and scale of the outputs.

Use instead
-----------
    torch.sigmoid(self.head(x))         # a softmax over one score is always 1
    nn.Linear(64, 1)                    # last layer: no norm and no ReLU after a single value

When it is fine
---------------
Not reported: the first steps (zero-initialized heads), one row expanded over the batch (a learned deviation), sigmoids
that round to exactly 0 or 1, half precision (where rounding alone can cause it), outputs that no loss uses, and
predictions that shrank to the mean on noise, which still differ in their last digits.
"""

from typing import Final

from trueloop.event import OutputsCompared, RunEnded
from trueloop.rules.rule import Finding, Findings, Rule, Severity, facts

__all__ = ["OutputIgnoresInput"]

ROUNDING: Final = 1e-6  # Relative to the outputs: 8 times the precision of float32, and far below any real influence
STEPS: Final = 20  # Steps before the first check that counts
LOOKS: Final = 3  # Consecutive checks needed, up to the last one
DIFFERENT: Final = 0.5  # Share of a batch whose inputs must differ from the first sample


class OutputIgnoresInput(Rule, code="MDL110", severity=Severity.WARNING):
    not_applicable = "no output of a model was seen to go into a loss"
    explained_by = (
        "dead-relu-units", "symmetric-initialization", "saturated-activations", "unused-parameters", "nan-or-inf",
        "loss-detached-from-parameters", "loss-diverges", "learning-rate-too-high", "inputs-not-normalized",
        "optimizer-holds-old-parameters", "weights-overwritten-every-step", "weights-decayed-away",
        "checkpoint-weights-dead",
    )  # fmt: skip

    def __init__(self) -> None:
        self._rows: dict[tuple[int, bool], list[OutputsCompared]] = {}
        """By model and mode: the latest consecutive checks with equal outputs."""
        self._checked = False

    def why_not_checked(self) -> str:
        return "" if self._checked else f"no output was compared after the first {STEPS} steps"

    def on_outputs_compared(self, event: OutputsCompared) -> None:
        if event.step < STEPS:
            return
        self._checked = True
        row = self._rows.setdefault((event.model, event.training), [])
        if event.spread <= ROUNDING * event.scale and event.different >= DIFFERENT * event.batch:
            row.append(event)
        else:
            row.clear()

    def on_run_ended(self, end: RunEnded) -> Findings:
        for (model, _), row in self._rows.items():
            if len(row) >= LOOKS and self.count(model) == 1:
                yield self._report(row[0], row[-1], len(row))

    def _report(self, first: OutputsCompared, last: OutputsCompared, checks: int) -> Finding:
        return self.finding(
            first,
            f"{last.name} gave the same output for all {last.batch} samples of a batch, although {last.different} had "
            f"different inputs ({checks} checks, steps {first.step} to {last.step}).",
            fix="Find the layer after which all samples are equal: a softmax or norm over one value, a mean over the "
            "wrong dimension, or a final ReLU that is always zero.",
            evidence=facts(
                last,
                "model=name batch different_inputs=different spread scale checks training first_step last_step=step",
                checks=checks,
                first_step=first.step,
            ),
        )
