"""edge-values-equal-reference: 0, -0, inf, nan, denormal and the largest numbers give what the reference gives.

Elements at which the reference itself is away from float64 are left out, and so is the sign of a zero.
"""

from collections.abc import Iterator
from typing import ClassVar, Final, final

import torch
from torch import Tensor

from trueloop.op_claims.against_reference import compared_at_edge
from trueloop.op_claims.op_claim import OpClaim, Trial
from trueloop.op_claims.op_subject import OpSubject
from trueloop.results.proof import Cause, Proof

__all__ = ["EdgeValuesEqualReference"]

HIDES: Final = Cause("a comparison hides NaN", "`x > 0` is False for NaN: use `clamp` or `maximum`, which keep it")
OVERFLOW: Final = Cause(
    "an intermediate value overflows", "subtract the maximum before `exp`; use `log1p`, `logsumexp`"
)
ZERO: Final = Cause("a division by zero, or the sign of zero, is treated apart", "compare at 0.0 and -0.0")


@final
class EdgeValuesEqualReference(OpClaim):
    name = "edge-values-equal-reference"
    needs_reference = True
    healthy = "the reference's result for 0, -0, inf, -inf, nan, denormal and the largest numbers"
    causes: ClassVar[tuple[Cause, ...]] = (OVERFLOW, HIDES, ZERO)

    def try_op(self, subject: OpSubject) -> Proof:
        if subject.draws:
            return self.unproved("it draws random numbers, so its values cannot be compared")
        return self.result(
            subject,
            _trials(subject),
            lambda said: f"equals {subject.against} on {said} inputs with an edge value",
            "it takes no floating-point inputs",
        )


def _trials(subject: OpSubject) -> Iterator[Trial]:
    for sample in subject.samples:
        for number, tensor in enumerate(sample.tensors()):
            if not tensor.is_floating_point() or not tensor.numel():
                continue
            for name, (value, cause) in _edges(tensor.dtype).items():
                placed = sample.map_one(number, lambda each, value=value: _placed(each, value))  # type: ignore[misc]
                yield Trial(f"with {name}", placed, lambda each: compared_at_edge(subject, each), cause)
            zeros = sample.map_one(number, torch.zeros_like)
            yield Trial("all zero", zeros, lambda each: compared_at_edge(subject, each), ZERO)


def _edges(dtype: torch.dtype) -> dict[str, tuple[float, Cause]]:
    facts = torch.finfo(dtype)
    return {
        "0": (0.0, ZERO), "-0": (-0.0, ZERO), "inf": (float("inf"), OVERFLOW), "-inf": (float("-inf"), OVERFLOW),
        "nan": (float("nan"), HIDES), "a denormal": (facts.smallest_normal / 4, ZERO), "100": (100.0, OVERFLOW),
        "-100": (-100.0, OVERFLOW), "the largest number": (facts.max, OVERFLOW),
        "the lowest number": (facts.min, OVERFLOW),
    }  # fmt: skip


def _placed(tensor: Tensor, value: float) -> Tensor:
    changed = tensor.clone()
    changed.view(-1)[0] = value
    return changed
