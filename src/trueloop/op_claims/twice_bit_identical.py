"""twice-bit-identical: the same inputs and seed give bit-identical results and gradients twice."""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Final, final

from torch import Tensor

from trueloop.op_claims.difference import Difference, bytes_of
from trueloop.op_claims.gradients import gradients
from trueloop.op_claims.op_claim import OpClaim, Trial
from trueloop.op_claims.op_subject import NotTaken, OpSubject
from trueloop.op_claims.sample import Sample
from trueloop.results.proof import Cause, Proof

__all__ = ["TwiceBitIdentical"]

TIMES: Final = 3


@final
class TwiceBitIdentical(OpClaim):
    name = "twice-bit-identical"
    healthy = "results and gradients are bit-identical in every repetition with the same seed"
    causes: ClassVar[tuple[Cause, ...]] = (
        Cause("atomic additions in an order of their own", "reduce in a fixed order: a sum per block, then one more"),
        Cause("random numbers from outside of torch", "draw them by torch: `random` and `numpy` have their own seeds"),
        Cause("something is kept between calls", "look for globals, caches and memory from `torch.empty`"),
    )

    def try_op(self, subject: OpSubject) -> Proof:
        return self.result(
            subject, _trials(subject), lambda said: f"{said} calls, {TIMES} times each: bit-identical", "no inputs"
        )


def _trials(subject: OpSubject) -> Iterator[Trial]:
    for sample in subject.samples:
        yield Trial("", sample, _repeated(subject, _forward, "the result"))
        yield Trial("(backward)", sample, _repeated(subject, _backward, "the gradient"))


def _repeated(
    subject: OpSubject, run: Callable[[OpSubject, Sample, Any], list[bytes]], what: str
) -> Callable[[Sample], Difference | None]:
    def breaks(sample: Sample) -> Difference | None:
        if not _differs(subject, sample, run, None):
            return None
        if subject.reference is not None and _differs(subject, sample, run, subject.reference):
            raise NotTaken(RuntimeError("the reference is not deterministic either"), refused=True)
        return Difference(f"{what} differs between two calls with the same inputs and seed")

    return breaks


def _differs(subject: OpSubject, sample: Sample, run: Callable[..., list[bytes]], function: Any) -> bool:
    first = run(subject, sample.copied(), function)
    return any(run(subject, sample.copied(), function) != first for _ in range(TIMES - 1))


def _forward(subject: OpSubject, sample: Sample, function: Any) -> list[bytes]:
    return [bytes_of(each) for each in subject.results(sample, function) if isinstance(each, Tensor)]


def _backward(subject: OpSubject, sample: Sample, function: Any) -> list[bytes]:
    return [bytes_of(each) for each in gradients(subject, sample, function).values or () if each is not None]
