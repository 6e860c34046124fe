"""LOS141 scores-flattened: a temperature or label smoothing leaves nearly no difference between classes.

What it sees
------------
Cross-entropy with `label_smoothing` of 0.5 or more. Or scores that a number divides by more than 20 before
cross-entropy, after which, in a late recorded step, all of them lie within a range of less than 1: the probabilities
of all classes are nearly equal. Or cosine similarities that a number divides by 5 or more: they lie within -1 and 1,
so no training gets the scores apart. This happens where a temperature of 0.07 is multiplied, or a scale divided.

Why it hurts
------------
The loss rewards equal scores for all classes, or its gradient is divided by the temperature and never gets the scores
apart. It stays near the logarithm of the number of classes, and probabilities and thresholds mean nothing.

Evidence
--------
The smoothing or the factor, and the range of the scores before and after it. For cosine similarities: the number of
classes, and the smallest loss that such scores can reach.

Use instead
-----------
    F.cross_entropy(logits, y, label_smoothing=0.1)         # rarely more than 0.2
    F.cross_entropy(logits / temperature, y)                # temperature 1, or below for cosine similarities

When it is fine
---------------
Not reported: smoothing below 0.5; scores that are divided by the root of their width and still differ; distillation
(soft targets); a scale that is learned; cosine similarities without any factor; fewer than 100 steps for temperatures.
"""

import math
from typing import Final

from trueloop.event import Operation, StepProgram
from trueloop.event.operation_names import (
    ANY_QUOTIENT,
    CLAMPS,
    CLASS_LOSSES,
    MATRIX_PRODUCTS,
    NORMS,
    TRANSPOSES,
)
from trueloop.rules.program_view import ProgramView, number_in
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["ScoresFlattened"]

SMOOTHING: Final = 0.5
FACTOR: Final = 0.05
RANGE: Final = 1.0
STEPS: Final = 100
COSINE: Final = 0.2
"""Factor of cosine similarities: up to it, 10 classes get probabilities between 0.07 and 0.15, whatever is learned."""
_PASSES: Final = ("log_softmax",)
_TURNS: Final = TRANSPOSES | {"T", "mT", "t", "masked_fill", "masked_fill_", "log_softmax"}
"""What changes no similarity that is compared."""
_PAIRED: Final = MATRIX_PRODUCTS | {"linear", "einsum"}
_ROUNDING: Final = 1.01  # half precision
_MOST: Final = 12


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
        if len(operation.inputs) < 2 or view.values[operation.inputs[1]].dtype != "int64":
            return
        found = _scaled(view, operation.inputs[0])
        if found is None:
            yield from self._cosines(view, operation)
            return
        if self.count(operation.place) != 1:
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

    def _cosines(self, view: ProgramView, operation: Operation) -> Findings:
        factor, scaling = _of_cosines(view, operation.inputs[0]) or (1.0, None)
        shape = view.values[operation.inputs[0]].shape
        if scaling is None or factor > COSINE or len(shape) < 2 or shape[1] < 2 or self.count(scaling.place) != 1:
            return
        classes = shape[1]
        least, equal = math.log1p((classes - 1) * math.exp(-2 * factor)), math.log(classes)
        yield self.finding(
            view.program,
            f"Cosine similarities are multiplied by {factor:.3g} before cross-entropy: the scores of {classes} classes "
            f"lie within -{factor:.3g} and {factor:.3g}, so the loss cannot fall below {least:.3f}; equal scores give "
            f"{equal:.3f}.",
            fix="Divide cosine similarities by a small temperature, or multiply them by its inverse: `cosine / 0.07`.",
            evidence={"factor": factor, "classes": classes, "smallest_loss": least, "loss_of_equal_scores": equal},
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


def _of_cosines(view: ProgramView, value: int) -> tuple[float, Operation | None] | None:
    """The factor of cosine similarities, and the operation that has it; None where the scores may be something else."""
    value, factor, scaling = _unscaled(view, value)
    maker = view.maker(value)
    if maker is None or view.values[value].largest is None or len(maker.inputs) != 2:
        return None
    if maker.name in _PAIRED:
        for index in maker.inputs:
            source, own, scaled = _unscaled(view, index)
            if not _is_unit(view, source):
                return None
            factor, scaling = factor * own, scaling or scaled
    elif maker.name != "cosine_similarity":
        return None
    low, high = view.values[value].smallest or 0.0, view.values[value].largest or 0.0
    # the lengths may be those of another dimension than the one of the product
    return (factor, scaling) if max(-low, high) <= _ROUNDING else None


def _unscaled(view: ProgramView, value: int) -> tuple[int, float, Operation | None]:
    """A value before factors and transpositions, the product of the factors, and the last operation that has one."""
    product, scaling = 1.0, None
    for _ in range(_MOST):
        value = view.through_views(value)
        maker = view.maker(value)
        if maker is None or not maker.inputs:
            break
        factor = view.factor(maker)
        if factor is not None:
            product, scaling = product * factor, scaling or maker
        elif maker.name not in _TURNS:
            break
        value = maker.inputs[0]
    return value, product, scaling


def _is_unit(view: ProgramView, value: int) -> bool:
    """Vectors that were divided by their lengths."""
    maker = view.maker(value)
    if maker is None or not maker.inputs:
        return False
    if maker.name == "normalize":
        return number_in(view.option(maker, "p", 1) or "2") == 2
    if maker.name not in ANY_QUOTIENT or len(maker.inputs) != 2:
        return False
    length = view.maker(view.through_views(maker.inputs[1]))
    while length is not None and length.name in CLAMPS | {"add"} and len(length.inputs) == 1:
        length = view.maker(view.through_views(length.inputs[0]))
    return length is not None and length.name in NORMS and length.inputs[:1] == maker.inputs[:1]
