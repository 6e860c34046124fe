"""DAT171 metric-of-last-batch: the loss that is printed for an evaluation is that of its last batch alone.

What it sees
------------
After every evaluation of three or more batches, the script prints a number that is the loss of the last batch, to all
printed digits. It is not the mean over the batches, nor over the samples, and neither of these is printed.

Why it hurts
------------
The number depends on the few samples of one batch. It jumps from epoch to epoch, and model selection and early stopping
by it follow noise.

Evidence
--------
The line that prints, the line of the loss, the number of batches, the printed value and the mean.

Use instead
-----------
    total += loss.item() * len(x)          # in the loop over the batches
    ...
    print(total / len(loader.dataset))

When it is fine
---------------
Not reported: evaluations of one or two batches, losses that are printed batch by batch, a line that says `last` or
`batch`, scripts that print the mean as well, fewer than two evaluations, and numbers with fewer than three digits.
"""

from typing import Final

from trueloop.event import EvaluationPrinted
from trueloop.rules.rule import Findings, Rule, Severity, on_line, statement_at
from trueloop.usercode.names import words_of

__all__ = ["MetricOfLastBatch"]

PASSES: Final = 2
NAMED: Final = frozenset({"last", "latest", "final", "batch"})


class MetricOfLastBatch(Rule, code="DAT171", severity=Severity.WARNING):
    not_applicable = "no loss of an evaluation was printed twice"

    def on_evaluation_printed(self, event: EvaluationPrinted) -> Findings:
        always = event.passes >= PASSES and event.last == event.passes
        if not always or event.mean_of_means or event.mean_of_elements or event.other_lines:
            return
        source, statement = statement_at(event.place)
        if statement is not None and NAMED & set(words_of(source.text(statement))):
            return
        mean, _, last = event.values
        yield self.finding(
            event,
            f"After {event.passes} evaluations the loss of the last of {len(event.batches)} batches"
            f"{on_line(event.loss_place, event.place)} is printed: {last:.5g}. The mean of all batches is {mean:.5g}.",
            fix="Sum the losses in the loop and divide by the number of samples.",
            evidence={
                "evaluations": event.passes,
                "batches": len(event.batches),
                "printed": last,
                "mean_of_batches": mean,
                "loss": event.loss_place,
            },
        )
