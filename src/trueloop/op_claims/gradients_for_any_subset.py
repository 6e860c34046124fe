"""gradients-for-any-subset: an input gets the same gradient whether or not the other inputs need one."""

from collections.abc import Callable, Iterator
from typing import ClassVar, final

from trueloop.op_claims.difference import Difference, difference
from trueloop.op_claims.gradients import gradients, zero_filled
from trueloop.op_claims.op_claim import OpClaim, Trial
from trueloop.op_claims.op_subject import NotTaken, OpSubject
from trueloop.op_claims.sample import Sample
from trueloop.results.proof import Cause, Proof

__all__ = ["GradientsForAnySubset"]


@final
class GradientsForAnySubset(OpClaim):
    name = "gradients-for-any-subset"
    healthy = "each input's gradient is the same if only that input requires one"
    causes: ClassVar[tuple[Cause, ...]] = (
        Cause("`ctx.needs_input_grad` is read at the wrong position", "it has one entry for each argument of forward"),
        Cause("what backward needs is saved only sometimes", "save all tensors, or ask `needs_input_grad` in both"),
    )

    def try_op(self, subject: OpSubject) -> Proof:
        samples = [sample for sample in subject.samples if len(sample.floats()) > 1]
        if not samples:
            return self.unproved("it has one floating-point input")
        try:
            if gradients(subject, samples[0].copied()).values is None or subject.draws:
                return self.unproved("its result has no gradient, or it draws random numbers")
        except NotTaken as error:
            return self.unproved(f"its backward raises {error}")
        return self.result(
            subject, _trials(subject, samples), lambda said: f"{said} subsets give the same gradients", "no gradients"
        )


def _trials(subject: OpSubject, samples: list[Sample]) -> Iterator[Trial]:
    for sample in samples:
        for number in range(len(sample.floats())):
            yield Trial(f"(only tensor {number} requires a gradient)", sample, _alone(subject, number))


def _alone(subject: OpSubject, number: int) -> Callable[[Sample], Difference | None]:
    def breaks(sample: Sample) -> Difference | None:
        together = gradients(subject, sample.copied())
        if together.values is None or together.values[number] is None:
            return None
        try:
            alone = gradients(subject, sample.copied(), wanted=[number])
        except NotTaken as error:
            return Difference(f"the backward raises {error}")
        found = difference(zero_filled(alone), zero_filled(together)[number : number + 1])
        return Difference(found.what.replace("the result", "its gradient", 1), found.evidence) if found else None

    return breaks
