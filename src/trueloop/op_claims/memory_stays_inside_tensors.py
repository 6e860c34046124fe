"""memory-stays-inside-tensors: nothing outside of the inputs is read or written.

Each input, and the incoming gradient, lies inside a larger buffer: contiguous, transposed, or with gaps. Around it and
in the gaps is NaN, then 1. A result that changes with that was computed from it; a changed guard was written. On a CUDA
device NVIDIA's compute-sanitizer, where it is installed, also checks every access, so those to memory that the
operation allocates itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Final, final

import torch
from torch import Tensor

from trueloop.op_claims.difference import Difference, bytes_of
from trueloop.op_claims.gradients import gradients
from trueloop.op_claims.layouts import strides_of
from trueloop.op_claims.op_claim import OpClaim, Trial
from trueloop.op_claims.op_subject import NotTaken, OpSubject
from trueloop.op_claims.sample import Sample
from trueloop.op_claims.sanitizer import sanitize
from trueloop.results.proof import Cause, Proof

__all__ = ["MemoryStaysInsideTensors"]

MARGIN: Final = 64  # Elements on each side
GUARDS: Final = (float("nan"), 1.0)
WROTE: Final = Cause("a store has no mask", "mask elements beyond the size, and use the strides of the tensor")


@final
class MemoryStaysInsideTensors(OpClaim):
    name = "memory-stays-inside-tensors"
    healthy = "the result does not depend on the memory around the inputs, which stays as it is"
    causes: ClassVar[tuple[Cause, ...]] = (
        Cause("a load has no mask", "mask elements beyond the size: `tl.load(p, mask=i < n, other=0)`"),
        Cause("an index is off by one", "look at the first and the last row or element"),
        WROTE,
    )

    def try_op(self, subject: OpSubject) -> Proof:
        outside = "nothing outside was read or written in {} calls"
        proof = self.result(subject, _trials(subject), outside.format, "its results change from call to call")
        if proof.result == "fails" or subject.device.type != "cuda":
            unguarded = "; memory of the results is not guarded" if proof.result == "holds" else ""
            return replace(proof, measured=f"{proof.measured}{unguarded}")
        found = sanitize(subject.target, subject.samples)
        if found.wrong:
            more = f" ({found.errors} errors)" if found.errors > 1 else ""
            lines = {"compute-sanitizer": " / ".join(found.details)}
            return self.fails(f"compute-sanitizer: {found.wrong}{more}", lines, place=subject.place)
        rest = "compute-sanitizer reports no error"
        if found.not_run:
            rest = f"memory of the results is not guarded, because {found.not_run}"
        return replace(proof, measured=f"{proof.measured}; {rest}")


def _trials(subject: OpSubject) -> Iterator[Trial]:
    for sample in subject.samples:
        for layout in ("contiguous", "transposed", "stepped"):
            label = f"({layout}, guards around it)"
            yield Trial(label, sample, lambda each, layout=layout: _forward(subject, each, layout))  # type: ignore[misc]
            yield Trial(f"{label} in backward", sample, _backward(subject, layout))


@dataclass
class Guarded:
    """A tensor inside a larger buffer."""

    values: Tensor
    buffer: Tensor
    view: Tensor

    @classmethod
    def of(cls, values: Tensor, layout: str) -> Guarded:
        strides = strides_of(values, layout)
        span = sum((size - 1) * stride for size, stride in zip(values.shape, strides, strict=True)) + 1
        buffer = torch.zeros(max(span, 1) + 2 * MARGIN, dtype=values.dtype, device=values.device)
        return cls(values.detach().clone(), buffer, buffer.as_strided(values.shape, strides, MARGIN))

    def fill(self, guard: float) -> None:
        self.buffer.fill_(guard if self.buffer.is_floating_point() else int(guard == 1))
        self.view.copy_(self.values)

    def intact(self, guard: float) -> bool:
        """Is everything around the tensor as it was? The tensor itself is not asked."""
        self.view.copy_(self.values)
        after = bytes_of(self.buffer)
        self.fill(guard)
        return after == bytes_of(self.buffer)


def _forward(subject: OpSubject, sample: Sample, layout: str) -> Difference | None:
    kept = [Guarded.of(tensor, layout) for tensor in sample.tensors()]
    call = sample.replace(iter([each.view for each in kept]))
    return _compared(kept, lambda: [each for each in subject.results(call) if isinstance(each, Tensor)], "the result")


def _backward(subject: OpSubject, layout: str) -> Callable[[Sample], Difference | None]:
    def breaks(sample: Sample) -> Difference | None:
        incoming = gradients(subject, sample.copied()).incoming
        if not incoming:
            raise NotTaken(RuntimeError("no gradient"), refused=True)
        arriving = [Guarded.of(each, layout) for each in incoming]
        kept = [Guarded.of(tensor, layout) for tensor in sample.tensors()]
        call = sample.replace(iter([each.view for each in kept]))

        def run() -> list[Tensor]:
            found = gradients(subject, call, incoming=[each.view for each in arriving])
            return [value for value in found.values or () if value is not None]

        return _compared([*kept, *arriving], run, "a gradient")

    return breaks


def _compared(kept: list[Guarded], run: Callable[[], list[Tensor]], what: str) -> Difference | None:
    answers: list[list[bytes]] = []
    for guard in (GUARDS[0], *GUARDS):  # the first guard twice: is the operation deterministic at all?
        for each in kept:
            each.fill(guard)
        answers.append([bytes_of(value) for value in run()])
        if not all(each.intact(guard) for each in kept):
            return Difference("it writes outside of a tensor: the memory around it, or in its gaps, changed")
    if answers[0] != answers[1]:
        raise NotTaken(RuntimeError("not deterministic"), refused=True)
    if answers[1] != answers[2]:
        return Difference(f"{what} depends on memory outside of the tensors: it changes with what lies around them")
    return None
