"""LOS142 weight-of-batch-mean: a weight for single samples is computed from the mean loss of the batch.

What it sees
------------
In a recorded training step a loss function has reduced the batch to one number, `p = exp(-loss)` is computed from that
number, and a function of `p` multiplies the same number. This is the formula of the focal loss, for one sample.

Why it hurts
------------
The weight is one number for the whole batch, so hard and rare samples get no more weight than easy ones. All gradients
of a batch are scaled by one factor, and batches with a small mean loss, mostly of the frequent class, hardly train.

Evidence
--------
The loss function and how many targets it averaged.

Use instead
-----------
    ce = F.cross_entropy(logits, target, reduction="none")
    loss = ((1 - torch.exp(-ce)) ** gamma * ce).mean()

When it is fine
---------------
Not reported: `reduction="none"`, a single target, a perplexity that is printed, and weights that do not depend on the
loss that they multiply.
"""

from math import prod
from typing import Final

from trueloop.event import Operation, StepProgram
from trueloop.event.operation_names import ANY_PRODUCT, LOSSES, NEGATIONS, VIEWS
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["WeightOfBatchMean"]

SAMPLED: Final = 2  # steps that must show it
_SIGNS: Final = VIEWS | ANY_PRODUCT | NEGATIONS


class WeightOfBatchMean(Rule, code="LOS142", severity=Severity.ERROR):
    not_applicable = "no training step was recorded"

    def on_step_program(self, event: StepProgram) -> Findings:
        if event.phase != "training":
            return
        view = ProgramView(event)
        for operation in event.operations:
            found = _weighted(view, operation)
            if found is None or self.count(operation.place) != SAMPLED:
                continue
            loss, weight = found
            targets = prod(view.values[loss.inputs[1]].shape)
            yield self.finding(
                event,
                f"`exp(-loss)` is the probability of one sample, but `{loss.name}` has averaged {targets:,} targets "
                "before: the weight is one number for the whole batch.",
                fix='Call the loss function with `reduction="none"` and take the mean after the weights.',
                evidence={"function": loss.name, "targets": targets, "loss_at": loss.place},
                place=weight.place or operation.place,
            )


def _weighted(view: ProgramView, operation: Operation) -> tuple[Operation, Operation] | None:
    """The loss function and the exponential, where a product multiplies its number with a function of that number."""
    if operation.name not in ANY_PRODUCT or len(operation.inputs) != 2 or operation.outputs[0] not in view.on_loss_path:
        return None
    if view.values[operation.outputs[0]].shape or not all(view.values[index].grad for index in operation.inputs):
        return None
    for factor, term in (operation.inputs, operation.inputs[::-1]):
        number = _unsigned(view, term)
        loss = view.maker(number)
        if (
            loss is None
            or loss.name not in LOSSES
            or len(loss.inputs) < 2
            or prod(view.values[loss.inputs[1]].shape) < 2
        ):
            continue
        for index in view.behind(factor):
            maker = view.maker(index)
            if maker is not None and maker.name == "exp" and _unsigned(view, maker.inputs[0]) == number:
                return loss, maker
    return None


def _unsigned(view: ProgramView, value: int) -> int:
    """The number behind a sign, a constant factor, casts and copies."""
    for _ in range(8):
        maker = view.maker(value)
        if maker is None or maker.name not in _SIGNS or len(maker.inputs) != 1:
            return value
        value = maker.inputs[0]
    return value
