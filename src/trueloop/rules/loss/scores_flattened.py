"""LOS141 scores-flattened: a temperature or label smoothing leaves nearly no difference between classes.

What it sees
------------
Cross-entropy with `label_smoothing` of 0.5 or more. Or scores that a number divides by more than 20 before
cross-entropy, after which, in a late recorded step, all of them lie within a range of less than 1: the probabilities
of all classes are nearly equal.

Why it hurts
------------
The loss rewards equal scores for all classes, or its gradient is divided by the temperature and never gets the scores
apart. It stays near the logarithm of the number of classes, and probabilities and thresholds mean nothing.

Evidence
--------
The smoothing or the factor, and the range of the scores before and after it.

Use instead
-----------
    F.cross_entropy(logits, y, label_smoothing=0.1)         # rarely more than 0.2
    F.cross_entropy(logits / temperature, y)                # temperature 1, or below for cosine similarities

When it is fine
---------------
Not reported: smoothing below 0.5; scores that are divided by the root of their width and still differ; distillation
(soft targets); fewer than 100 steps for temperatures.
"""

from typing import Final

from trueloop.event import Operation, StepProgram
from trueloop.event.operation_names import CLASS_LOSSES
from trueloop.rules.program_view import ProgramView, number_in
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["ScoresFlattened"]

SMOOTHING: Final = 0.5
FACTOR: Final = 0.05
RANGE: Final = 1.0
STEPS: Final = 100
_PASSES: Final = ("log_softmax",)


class ScoresFlattened(Rule, code="LOS141", severity=Severity.WARNING):
    not_applicable = "no cross-entropy was recorded"

    def on_step_program(self, event: StepProgram) -> Findings:
        if event.phase != "training":
            return
        view = ProgramView(event)
        for operation in event.operations:
            if operation.name not in CLASS_LOSSES or view.on_loss_path.isdisjoint(operation.outputs):
                continue
            smoothing = number_in(view.option(operation, "label_smoothing", 7))
            if smoothing is not None and SMOOTHING <= smoothing < 1:
                if self.count(operation.place) == 1:
                    yield self.finding(
                        event,
                        f"`label_smoothing={smoothing:g}` spreads {smoothing:.0%} of each target over all classes: the "
                        "loss hardly prefers the right one.",
                        fix="Use `label_smoothing=0.1`, or leave it out.",
                        evidence={"label_smoothing": smoothing},
                        place=operation.place,
                    )
            elif event.step >= STEPS:
                yield from self._temperature(view, operation)

    def _temperature(self, view: ProgramView, operation: Operation) -> Findings:
        found = _scaled(view, operation.inputs[0]) if len(operation.inputs) > 1 else None
        if found is None or view.values[operation.inputs[1]].dtype != "int64" or self.count(operation.place) != 1:
            return
        scaling, factor, before, after = found
        yield self.finding(
            view.program,
            f"The scores are multiplied by {factor:.3g} before cross-entropy: they have a range of {before:.3g}, and "
            f"of {after:.3g} after it, at step {view.program.step}. All classes get nearly the same probability.",
            fix="Use a temperature near 1 for the outputs of a linear layer; below 1 only for cosine similarities.",
            evidence={"factor": factor, "range_before": before, "range_after": after},
            place=scaling.place,
        )


def _scaled(view: ProgramView, value: int) -> tuple[Operation, float, float, float] | None:
    """The multiplication of scores with a small number, the number, and the ranges of the scores before and after."""
    for _ in range(8):
        value = view.through_views(value)
        maker = view.maker(value)
        if maker is None or not maker.inputs:
            return None
        factor = view.factor(maker)
        if factor is not None:
            before, after = _range(view, maker.inputs[0]), _range(view, value)
            if before is None or after is None or factor > FACTOR or after >= RANGE:
                return None
            return maker, factor, before, after
        if maker.name not in _PASSES:
            return None
        value = maker.inputs[0]
    return None


def _range(view: ProgramView, index: int) -> float | None:
    value = view.values[index]
    if value.smallest is None or value.largest is None or len(value.shape) < 2:
        return None
    return value.largest - value.smallest
