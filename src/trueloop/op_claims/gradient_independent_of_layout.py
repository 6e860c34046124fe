"""gradient-independent-of-layout: strided and expanded incoming gradients and inputs give the same gradients."""

from collections.abc import Callable, Iterator
from typing import ClassVar, Final, final

from torch import Tensor

from trueloop.op_claims.difference import Difference, difference
from trueloop.op_claims.gradients import gradients, zero_filled
from trueloop.op_claims.layouts import LAYOUTS, expanded_values
from trueloop.op_claims.op_claim import OpClaim, Trial
from trueloop.op_claims.op_subject import NotTaken, OpSubject
from trueloop.op_claims.sample import Sample
from trueloop.results.proof import Cause, Proof

__all__ = ["GradientIndependentOfLayout"]

INPUT: Final = Cause("what was saved is read as if it were contiguous", "save `x.contiguous()`, or pass its strides")


@final
class GradientIndependentOfLayout(OpClaim):
    name = "gradient-independent-of-layout"
    healthy = "the gradients do not depend on the strides of the incoming gradient and of the inputs"
    causes: ClassVar[tuple[Cause, ...]] = (
        Cause("the incoming gradient is read as if it were contiguous", "`g = g.contiguous()` first in backward"),
        Cause("`.view()` is used in backward", "use `.reshape()`: after `sum()` the incoming gradient is expanded"),
        INPUT,
    )

    def try_op(self, subject: OpSubject) -> Proof:
        try:
            if subject.in_place or gradients(subject, subject.samples[0].copied()).values is None:
                return self.unproved("its result has no gradient" if not subject.in_place else "it writes its inputs")
        except NotTaken as error:
            return self.unproved(f"its backward raises {error}")
        if subject.draws:
            return self.unproved("it draws random numbers")
        return self.result(
            subject,
            _trials(subject),
            lambda said: f"{said} layouts of the incoming gradient and of the inputs give the same gradients",
            "it takes contiguous inputs only",
        )


def _trials(subject: OpSubject) -> Iterator[Trial]:
    for sample in subject.samples:
        for name, lay in LAYOUTS.items():
            label = f"(incoming gradient {name})"
            yield Trial(label, sample, _incoming(subject, name, lay))
            yield Trial(f"({name})", sample, _inputs(subject, name, lay), INPUT)


def _incoming(subject: OpSubject, name: str, lay: Callable[[Tensor], Tensor]) -> Callable[[Sample], Difference | None]:
    def breaks(sample: Sample) -> Difference | None:
        arriving = gradients(subject, sample.copied()).incoming
        if name.startswith("expanded"):  # what `sum().backward()` gives: one element, expanded
            arriving = [
                each.flatten()[:1].expand(each.numel()).reshape(each.shape) for each in arriving if each.numel()
            ]
        plain = [each.contiguous() for each in arriving]
        if name.startswith("expanded"):
            laid = [each.flatten()[:1].as_strided(each.shape, (0,) * each.dim()) for each in plain]
        else:
            laid = [lay(each) for each in plain]
        expected = gradients(subject, sample.copied(), incoming=plain)
        return _differs(subject, sample.copied(), zero_filled(expected), laid)

    return breaks


def _inputs(subject: OpSubject, name: str, lay: Callable[[Tensor], Tensor]) -> Callable[[Sample], Difference | None]:
    def breaks(sample: Sample) -> Difference | None:
        plain = sample.map(expanded_values) if name.startswith("expanded") else sample
        expected = gradients(subject, plain.copied())
        subject.results(plain.copied().map(lay))  # a crash in the forward is the forward's
        return _differs(subject, plain.copied().map(lay), zero_filled(expected), expected.incoming)

    return breaks


def _differs(subject: OpSubject, sample: Sample, expected: list[Tensor], incoming: list[Tensor]) -> Difference | None:
    try:
        got = gradients(subject, sample, incoming=incoming)
    except NotTaken as error:
        if error.refused:
            raise
        return Difference(f"the backward raises {error}")
    found = difference(zero_filled(got), expected)
    return Difference(found.what.replace("the result", "the gradient", 1), found.evidence) if found else None
