"""LOS171 unit-length-in-wrong-dimension: vectors are normalized over one dimension and compared over another.

What it sees
------------
In a recorded training step, two tensors that were divided by their norm (`F.normalize`, or `x / x.norm(...)`) meet in a
product, and the product sums over another dimension of both than the norm did.

Why it hurts
------------
The product is not a cosine similarity: the vectors that it compares do not have unit length. Long vectors win, and a
temperature that was chosen for cosines does not fit. `F.normalize` has `dim=1` as its default, which is the dimension
of the features only where the tensor has two dimensions, or channels in dimension 1.

Evidence
--------
The shape that was normalized, the dimension of the norm, and the dimension that the product sums over.

Use instead
-----------
    z = F.normalize(z, dim=-1)        # [batch, views, features] or [batch, tokens, features]

When it is fine
---------------
Not reported: products with one normalized factor, products over the normalized dimension (also over samples or tokens,
as in a cross-correlation of features), columns that are scaled over the samples unless a softmax follows, other norms
than the Euclidean one, and tensors whose dimensions are not certain.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from trueloop.event import Operation, StepProgram
from trueloop.event.operation_names import ADDITIONS, CLAMPS, LABEL_LOSSES, NORMS, QUOTIENTS, SCALINGS, VIEWS
from trueloop.rules.program_contractions import contractions
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["UnitLengthInWrongDimension"]

STEPS: Final = 2  # recorded steps that must show it
_GUARDS: Final = VIEWS | CLAMPS | ADDITIONS  # `norm.clamp_min(eps)`, `norm + eps`
_SOFTMAX: Final = LABEL_LOSSES | {"softmax", "log_softmax", "logsumexp"}
_EUCLIDEAN: Final = (None, "2", "2.0", "fro")


class _Factor(NamedTuple):
    """A normalized tensor in a product."""

    normalization: Operation
    normalized: int  # the dimension of the norm
    summed: int | None  # the dimension that the product sums over


class UnitLengthInWrongDimension(Rule, code="LOS171", severity=Severity.WARNING):
    not_applicable = "no training step was recorded"

    def on_step_program(self, event: StepProgram) -> Findings:
        if event.phase != "training":
            return
        view = ProgramView(event)
        products: dict[int, dict[int, list[_Factor]]] = {}  # by the result and the position of the factor
        for operation, dim in _normalizations(view):
            for found in contractions(view, operation.outputs[0]):
                factors = products.setdefault(found.product.outputs[0], {}).setdefault(found.position, [])
                factors.append(_Factor(operation, dim, found.dim))
        right = {f.normalization.outputs for sides in products.values() for fs in sides.values() for f in fs
                 if f.summed is None or f.summed == f.normalized}  # fmt: skip
        for result, sides in products.items():
            factors = [factor for side in sides.values() for factor in side]
            if len(sides) == 2 and right.isdisjoint(f.normalization.outputs for f in factors):
                yield from self._report(event, view, result, factors[0])

    def _report(self, event: StepProgram, view: ProgramView, result: int, factor: _Factor) -> Findings:
        operation, dim, summed = factor
        product = view.maker(result)
        if product is None or result not in view.on_loss_path or (dim == 0 and not _are_scores(view, result)):
            return
        if self.count(operation.place) != STEPS:
            return
        shape = list(view.values[operation.inputs[0]].shape)
        assert summed is not None
        yield self.finding(
            event,
            f"A tensor of shape {shape} is divided by its norm over dimension {dim}, and `{product.name}` compares "
            f"vectors of {shape[summed]} numbers in dimension {summed}: they do not have unit length.",
            fix=f"Normalize over the dimension that is compared: `dim={summed - len(shape)}`.",
            evidence={"shape": shape, "normalized": dim, "compared": summed, "product_at": product.place},
            place=operation.place,
        )


def _normalizations(view: ProgramView) -> Iterator[tuple[Operation, int]]:
    """The calls that give vectors unit length, and the dimension of the vectors."""
    for operation in view.operations:
        if not operation.inputs or not operation.outputs:
            continue
        rank = len(view.values[operation.inputs[0]].shape)
        norm = operation if operation.name == "normalize" else _norm_of(view, operation)
        if norm is None or view.option(norm, "p", 1) not in _EUCLIDEAN or rank < 2:
            continue
        text = view.option(norm, "dim", 2) or ("1" if norm is operation else "")
        if text.lstrip("-").isdigit():
            yield operation, int(text) % rank


def _norm_of(view: ProgramView, operation: Operation) -> Operation | None:
    """`x / x.norm(dim=1, keepdim=True)`"""
    if operation.name not in QUOTIENTS or len(operation.inputs) != 2:
        return None
    value, divisor = operation.inputs
    for _ in range(4):
        maker = view.maker(divisor)
        if maker is None or not maker.inputs:
            return None
        if maker.name in NORMS:
            return maker if maker.inputs[0] == value else None
        if maker.name not in _GUARDS:
            return None
        divisor = maker.inputs[0]
    return None


def _are_scores(view: ProgramView, value: int) -> bool:
    """Does the product, perhaps scaled, go into a softmax?"""
    waiting = [value]
    for _ in range(8):
        if not waiting:
            break
        readers = view.readers.get(waiting.pop(0), [])
        if any(reader.name in _SOFTMAX for reader in readers):
            return True
        waiting += [reader.outputs[0] for reader in readers if reader.name in VIEWS | SCALINGS]
    return False
