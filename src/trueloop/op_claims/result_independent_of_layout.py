"""result-independent-of-layout: transposed, sliced, offset and expanded inputs give the result of contiguous ones."""

from collections.abc import Callable, Iterator
from typing import ClassVar, Final, final

from torch import Tensor

from trueloop.op_claims.difference import Difference, difference
from trueloop.op_claims.layouts import LAYOUTS, expanded_values
from trueloop.op_claims.op_claim import OpClaim, Trial
from trueloop.op_claims.op_subject import NotTaken, OpSubject
from trueloop.op_claims.sample import Sample
from trueloop.results.proof import Cause, Proof

__all__ = ["ResultIndependentOfLayout"]

OFFSET: Final = Cause("the storage offset is ignored", "pass `x.data_ptr()`, not the pointer of the storage")
EXPANDED: Final = Cause("elements of an expanded input share memory", "call `.contiguous()` before writing or counting")


@final
class ResultIndependentOfLayout(OpClaim):
    name = "result-independent-of-layout"
    healthy = "the result does not depend on strides and storage offset, or the operation refuses the layout"
    causes: ClassVar[tuple[Cause, ...]] = (
        Cause("the strides are ignored", "pass `x.stride()` to the kernel, or call `x.contiguous()` first"),
        Cause("`.view()` is used on an input", "use `.reshape()`"),
        OFFSET,
        EXPANDED,
    )

    def try_op(self, subject: OpSubject) -> Proof:
        if subject.in_place:
            return self.unproved("it writes into its inputs, and elements of an expanded input share memory")
        refused: dict[str, str] = {}
        proof = self.result(
            subject,
            _trials(subject, refused),
            lambda said: f"{said} layouts give the result of contiguous inputs{_stated(refused)}",
            f"it takes contiguous inputs only{_stated(refused)}",
        )
        random = proof.result == "fails" and subject.draws
        return self.unproved("it draws random numbers in the order of memory") if random else proof


def _trials(subject: OpSubject, refused: dict[str, str]) -> Iterator[Trial]:
    likely = {"at": OFFSET, "expanded": EXPANDED}
    for sample in subject.samples:
        count = len(sample.tensors())
        for name, lay in LAYOUTS.items():
            for number in [None, *(range(count) if count > 1 else ())]:
                label = f"({name})" if number is None else f"(tensor {number} {name})"
                breaks = _breaks(subject, name, lay, number, refused)
                yield Trial(label, sample, breaks, likely.get(name.split()[0]))


def _breaks(
    subject: OpSubject, name: str, lay: Callable[[Tensor], Tensor], number: int | None, refused: dict[str, str]
) -> Callable[[Sample], Difference | None]:
    def changed(sample: Sample, change: Callable[[Tensor], Tensor]) -> Sample:
        return sample.map(change) if number is None else sample.map_one(number, change)

    def breaks(sample: Sample) -> Difference | None:
        plain = changed(sample, expanded_values) if name.startswith("expanded") else sample
        expected = subject.results(plain.copied())
        if subject.reference is not None:
            subject.results(changed(plain.copied(), lay), subject.reference)
        try:
            got = subject.results(changed(plain.copied(), lay))
        except NotTaken as error:
            if error.refused:
                refused.setdefault(name, str(error))
                raise
            return Difference(f"it raises {error}")
        return difference(got, expected)

    return breaks


def _stated(refused: dict[str, str]) -> str:
    return f"; it refuses {', '.join(refused)} ({next(iter(refused.values()))})" if refused else ""
