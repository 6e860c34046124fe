"""inputs-untouched: forward and backward write into no input, unless that is declared."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import ClassVar, final

from trueloop.op_claims.difference import Difference, bytes_of
from trueloop.op_claims.gradients import gradients
from trueloop.op_claims.op_claim import OpClaim, Trial
from trueloop.op_claims.op_subject import NotTaken, OpSubject
from trueloop.op_claims.sample import Sample
from trueloop.results.proof import Cause, Proof

__all__ = ["InputsUntouched"]


@final
class InputsUntouched(OpClaim):
    name = "inputs-untouched"
    healthy = "the bytes of every input are the same before and after, or writing is declared"
    causes: ClassVar[tuple[Cause, ...]] = (
        Cause("an in-place operation on an input", "look for `x.add_`, `x[...] = `, `x.data` and `out=x`"),
        Cause("it is meant to be in place", "declare it: `ctx.mark_dirty(x)`, or `mutates_args=('x',)`"),
    )

    def try_op(self, subject: OpSubject) -> Proof:
        if subject.in_place:
            return self.holds("it declares that it writes into an input", {})
        return self.result(
            subject, _trials(subject), lambda said: f"every input has the same bytes after {said} calls", "no inputs"
        )


def _trials(subject: OpSubject) -> Iterator[Trial]:
    for sample in subject.samples:
        yield Trial("(forward)", sample, _forward(subject))
        yield Trial("(backward)", sample, _backward(subject))


def _forward(subject: OpSubject) -> Callable[[Sample], Difference | None]:
    def breaks(sample: Sample) -> Difference | None:
        given = sample.copied()
        subject.results(given)
        return _changed(given, sample)

    return breaks


def _backward(subject: OpSubject) -> Callable[[Sample], Difference | None]:
    def breaks(sample: Sample) -> Difference | None:
        given = sample.copied()
        with suppress(NotTaken):  # what was written before an error counts
            gradients(subject, given)
        return _changed(given, sample)

    return breaks


def _changed(given: Sample, before: Sample) -> Difference | None:
    for number, (one, other) in enumerate(zip(given.tensors(), before.tensors(), strict=True)):
        if bytes_of(one) != bytes_of(other):
            count = int((one != other).sum())
            return Difference(f"it wrote into tensor {number} of its inputs: {count} of {one.numel()} elements changed")
    return None
