"""LOS116 mean-and-sum-mixed: one term of the loss is a mean over the batch, another a sum over it.

What it sees
------------
In a recorded training step the loss adds two terms. One is the mean of its elements; the other is the sum of elements
of the whole batch, and is not divided by their number.

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
Not reported: sums over weights (penalties), sums that are divided or scaled by a small factor, and terms that are both
sums or both means.
"""

from math import prod
from typing import Final

from trueloop.event import Operation, StepProgram
from trueloop.rules.program_view import VIEWS, ProgramView
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["MeanAndSumMixed"]

_SUMS: Final = frozenset({"add", "__add__", "__radd__", "__iadd__", "sub", "__sub__"})
_SCALES: Final = frozenset({"mul", "__mul__", "__rmul__", "neg", "__neg__"})
_MEANS: Final = frozenset({"mean", "mse_loss", "l1_loss", "cross_entropy", "binary_cross_entropy_with_logits",
                           "binary_cross_entropy", "smooth_l1_loss", "huber_loss", "nll_loss"})  # fmt: skip
SMALL: Final = 0.05  # a factor that makes up for the sum
LEAST: Final = 64  # elements


class MeanAndSumMixed(Rule, code="LOS116", severity=Severity.WARNING):
    not_applicable = "no training step was recorded"

    def on_step_program(self, event: StepProgram) -> Findings:
        if event.phase != "training":
            return
        view = ProgramView(event)
        for operation in event.operations:
            if operation.name not in _SUMS or len(operation.inputs) != 2 or operation.model >= 0:
                continue
            if operation.outputs[0] not in view.on_loss_path or view.values[operation.outputs[0]].shape != ():
                continue
            kinds = [_reduction(view, index) for index in operation.inputs]
            if any(kind is None for kind in kinds):
                continue
            (one, _), (other, _) = kinds  # type: ignore[misc]
            if {one, other} != {"mean", "sum"}:
                continue
            summed = operation.inputs[0 if one == "sum" else 1]
            averaged = operation.inputs[1 if one == "sum" else 0]
            count = next(number for kind, number in kinds if kind == "sum")  # type: ignore[misc]
            big, small = view.values[summed].mean, view.values[averaged].mean
            yield self.finding(
                event,
                f"The loss adds a mean ({small:.4g}) and a sum over {count} elements of the batch ({big:.4g}).",
                fix="Reduce both terms the same way: `.sum(dim=1).mean()` for the sum over features.",
                evidence={"sum": big, "mean": small, "elements": count},
                place=operation.place,
            )


def _reduction(view: ProgramView, value: int) -> tuple[str, int] | None:
    """How a scalar was reduced over the batch, through factors that are not small: (mean or sum, elements)."""
    for _ in range(6):
        maker = view.maker(value)
        if maker is None or not maker.inputs or not view.values[value].grad:
            return None
        if maker.name in _SCALES and len(maker.inputs) == 1:
            if _factor(maker) < SMALL:
                return None
        elif maker.name in VIEWS:
            pass
        elif maker.name in _MEANS:
            reduced = view.option(maker, "reduction", 99)
            kind = "sum" if reduced == "sum" else "mean" if reduced in (None, "mean") else ""
            return (kind, prod(view.values[maker.inputs[0]].shape)) if kind else None
        elif maker.name == "sum":
            shape = view.values[maker.inputs[0]].shape
            rows = view.sizes_of_samples
            batch = len(shape) >= 1 and shape[0] in rows and maker.inputs[0] in view.from_data
            return ("sum", prod(shape)) if batch and prod(shape) >= LEAST and view.dim_of(maker) is None else None
        else:
            return None
        value = maker.inputs[0]
    return None


def _factor(operation: Operation) -> float:
    for _, text in operation.options:
        try:
            return abs(float(text))
        except ValueError:
            continue
    return 1.0
