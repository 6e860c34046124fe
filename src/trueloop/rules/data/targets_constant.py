"""DAT117 targets-constant: every target of the training has the same value.

What it sees
------------
The only loss function of a training was called on many batches. Its targets come from a loader, or were picked from a
tensor of the script, and all of them are equal: at least 1,000.

Why it hurts
------------
The model learns that constant and nothing else, with a loss that falls to zero. Usual causes: a division before a cast
to integers, a wrong column, a mask that was never filled, labels of one class only.

Evidence
--------
The value, the number of targets, and the targets in evaluation.

Use instead
-----------
    labels = torch.from_numpy(mask).long()          # not (mask / 255).long(): that is 0 for every class number

When it is fine
---------------
Not reported: constants made for the loss (real and fake of a GAN, the zeros of a contrastive loss or of a physical
residual), and runs with several loss functions.
"""

from typing import Final

from trueloop.event import Place, RunEnded, StepProgram, TargetsSummarized
from trueloop.event.operation_names import LOSSES
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["TargetsConstant"]

LEAST: Final = 1000
LEAST_CALLS: Final = 4


class TargetsConstant(Rule, code="DAT117", severity=Severity.ERROR):
    not_applicable = "no loss function with a target was called"
    explained_by = ("mask-used-as-indices",)

    def __init__(self) -> None:
        self._events: list[TargetsSummarized] = []
        self._picked: set[Place | None] = set()
        """Lines with a loss whose targets come from the data."""

    def on_step_program(self, event: StepProgram) -> None:
        view = ProgramView(event)
        for operation in event.operations if event.phase == "training" else ():
            if operation.name in LOSSES and len(operation.inputs) > 1 and view.is_sampled(operation.inputs[1]):
                self._picked.add(operation.place)

    def on_targets_summarized(self, event: TargetsSummarized) -> None:
        self._events.append(event)

    def on_run_ended(self, _: RunEnded) -> Findings:
        trained = [event for event in self._events if event.training is not None and event.calls >= LEAST_CALLS]
        if len(trained) != 1:
            return  # several losses: one may be a discriminator's, whose targets are constant by design
        (event,) = trained
        labels, there = event.training, event.evaluation
        if event.place not in self._picked:
            return
        if labels is None or labels.distinct != 1 or labels.count < LEAST or event.function == "kl_div":
            return
        shown = "" if there is None else f" In evaluation there are {there.distinct} distinct targets."
        yield self.finding(
            event,
            f"All {labels.count:,} sampled training targets of `{event.function}` are {labels.mean:g}.{shown}",
            fix="Look at the labels before and after every cast and division; `labels.unique()` must show the classes.",
            evidence={"value": labels.mean, "targets": labels.count,
                      "distinct_in_evaluation": None if there is None else there.distinct},
        )  # fmt: skip
