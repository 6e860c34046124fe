"""result-owns-its-memory: no input and no later call shares the memory of a result, unless the reference's does."""

from collections.abc import Callable, Iterator
from typing import ClassVar, Final, final

from torch import Tensor

from trueloop.op_claims.difference import Difference, bytes_of
from trueloop.op_claims.op_claim import OpClaim, Trial
from trueloop.op_claims.op_subject import OpSubject
from trueloop.op_claims.sample import Sample
from trueloop.results.proof import Cause, Proof

__all__ = ["ResultOwnsItsMemory"]

WORKSPACE: Final = Cause("a buffer is kept between calls", "allocate the result in each call: `torch.empty_like(x)`")


@final
class ResultOwnsItsMemory(OpClaim):
    name = "result-owns-its-memory"
    healthy = "writing into a result changes no input, and the next call changes no earlier result"
    causes: ClassVar[tuple[Cause, ...]] = (
        Cause(
            "the input is returned where nothing is to be done", "`contiguous()` and `to()` copy only if needed: clone"
        ),
        WORKSPACE,
    )

    def try_op(self, subject: OpSubject) -> Proof:
        if subject.in_place:
            return self.unproved("it writes into its inputs, as declared")
        return self.result(
            subject, _trials(subject), lambda said: f"{said} results share no memory that they should not", "no inputs"
        )


def _trials(subject: OpSubject) -> Iterator[Trial]:
    for sample in subject.samples:
        yield Trial("(called again)", sample, _overwritten(subject), WORKSPACE)
        if subject.reference is not None:
            positive = sample.map(lambda tensor: tensor.abs() if tensor.is_floating_point() else tensor)
            yield Trial("", sample, _shared(subject))
            yield Trial("", positive, _shared(subject))


def _overwritten(subject: OpSubject) -> Callable[[Sample], Difference | None]:
    def breaks(sample: Sample) -> Difference | None:
        first = [each for each in subject.results(sample.copied()) if isinstance(each, Tensor)]
        before = [bytes_of(each) for each in first]
        subject.results(sample.copied().map(lambda tensor: tensor + 1 if tensor.is_floating_point() else tensor))
        if before != [bytes_of(each) for each in first]:
            return Difference("the next call overwrites the result of this one")
        return None

    return breaks


def _shared(subject: OpSubject) -> Callable[[Sample], Difference | None]:
    def breaks(sample: Sample) -> Difference | None:
        ours, theirs = sample.copied(), sample.copied()
        got, expected = subject.results(ours), subject.results(theirs, subject.reference)
        if _shares(got, ours) and not _shares(expected, theirs):
            return Difference(f"the result shares the memory of an input; that of {subject.against} does not")
        return None

    return breaks


def _shares(results: list[object], sample: Sample) -> bool:
    held = {tensor.untyped_storage().data_ptr() for tensor in sample.tensors() if tensor.numel()}
    return any(
        isinstance(each, Tensor) and each.numel() and each.untyped_storage().data_ptr() in held for each in results
    )
