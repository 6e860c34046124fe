"""LOS116 mean-and-sum-mixed: one term of the loss is a mean over the batch, another a sum over it.

What it sees
------------
In a recorded training step the loss adds terms that depend on data. One is the mean of its elements; another is the
sum of at least 64 elements of the batch, is not divided by their number, and is the larger one.

Why it hurts
------------
The sum outweighs the mean by the number of elements, often a thousand times, and its weight changes with the batch
size. A VAE whose KL term is summed while the reconstruction is averaged ignores its input.

Evidence
--------
The values of both terms, and the number of elements that were summed.

Use instead
-----------
    kl = -0.5 * (1 + logvar - mu**2 - logvar.exp()).sum(dim=1).mean()        # sum over features, mean over samples

When it is fine
---------------
Not reported: sums over weights (penalties), sums that are divided or scaled down by a factor of 4 or more, sums that
are smaller than the mean, and terms that are all sums or all means.
"""

from math import prod
from typing import Final

from trueloop.event import Operation, StepProgram
from trueloop.event.operation_names import LOSSES, NEGATIONS, PRODUCTS, QUOTIENTS, VIEWS
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["MeanAndSumMixed"]

_SCALES: Final = PRODUCTS | NEGATIONS
SMALL: Final = 0.25  # a factor from which on a sum may have been scaled on purpose
LEAST: Final = 64  # elements


class MeanAndSumMixed(Rule, code="LOS116", severity=Severity.WARNING):
    not_applicable = "no training step was recorded"

    def on_step_program(self, event: StepProgram) -> Findings:
        if event.phase != "training":
            return
        view = ProgramView(event)
        for loss in dict.fromkeys(event.losses):
            root = view.through_views(loss)
            reduced = [(value, *kind) for value in view.terms(root) if (kind := _reduction(view, value))]
            sums = [(_size(view, value), count) for value, kind, count in reduced if kind == "sum" and count >= LEAST]
            means = [_size(view, value) for value, kind, _ in reduced if kind == "mean"]
            if not sums or not means or max(sums)[0] <= max(means):
                continue
            (big, count), small = max(sums), max(means)
            yield self.finding(
                event,
                f"The loss adds a mean ({small:.4g}) and a sum over {count:,} elements of the batch ({big:.4g}).",
                fix="Reduce both terms the same way: `.sum(dim=1).mean()` for the sum over features.",
                evidence={"sum": big, "mean": small, "elements": count},
                place=view.place_of(root),
            )


def _size(view: ProgramView, value: int) -> float:
    return abs(view.values[value].mean or 0.0)


def _reduction(view: ProgramView, value: int) -> tuple[str, int] | None:
    """How a scalar was reduced over the batch, through factors that are not small: (mean or sum, elements)."""
    factor = 1.0
    for _ in range(8):
        maker = view.maker(value)
        if maker is None or not maker.inputs or not view.values[value].grad or value not in view.from_data:
            return None
        if maker.name in _SCALES | QUOTIENTS and len(maker.inputs) == 1:
            factor *= _factor(maker)
            if factor <= SMALL:
                return None
        elif maker.name in LOSSES:
            reduction = view.option(maker, "reduction", 99) or "mean"
            return (reduction, prod(view.values[maker.inputs[0]].shape)) if reduction in ("mean", "sum") else None
        elif maker.name == "mean":
            return "mean", prod(view.values[maker.inputs[0]].shape)
        elif maker.name == "sum":
            return _sum(view, maker)
        elif maker.name not in VIEWS:
            return None
        value = maker.inputs[0]
    return None


def _sum(view: ProgramView, operation: Operation) -> tuple[str, int] | None:
    """A sum over elements, or over sums of them; not one over means."""
    for _ in range(4):
        shape = view.values[operation.inputs[0]].shape
        behind = view.maker(operation.inputs[0])
        if behind is None or behind.name not in ("sum", "mean") or not behind.inputs:
            break
        if behind.name == "mean":
            return None
        operation = behind
    batch = len(shape) >= 1 and shape[0] in view.sizes_of_samples and operation.inputs[0] in view.from_data
    return ("sum", prod(shape)) if batch else None


def _factor(operation: Operation) -> float:
    for _, text in operation.options:
        try:
            number = abs(float(text))
        except ValueError:
            continue
        return 1 / number if operation.name in QUOTIENTS and number else number
    return 1.0
