"""second-gradient-equals-reference: the gradient of the gradient is right, or refused by `once_differentiable`.

A gradient penalty, a Hessian and meta-learning differentiate twice. A backward that loses its graph makes them zero,
without an error.
"""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Final, final

import torch
from torch import Tensor

from trueloop.op_claims.difference import Difference, difference
from trueloop.op_claims.gradients import gradients, incoming_for, zero_filled
from trueloop.op_claims.op_claim import OpClaim, Trial
from trueloop.op_claims.op_subject import NotTaken, OpSubject
from trueloop.op_claims.sample import Sample
from trueloop.results.proof import Cause, Proof

__all__ = ["SecondGradientEqualsReference"]

REFUSED: Final = "once_differentiable"


@final
class SecondGradientEqualsReference(OpClaim):
    name = "second-gradient-equals-reference"
    needs_reference = True
    healthy = "the second gradient equals the reference's, or `once_differentiable` refuses it"
    causes: ClassVar[tuple[Cause, ...]] = (
        Cause("backward uses a tensor that is not in the graph", "keep inputs by `save_for_backward`, not as `ctx.x`"),
        Cause("backward calls a kernel that autograd cannot see", "mark it with `@once_differentiable`"),
    )

    def try_op(self, subject: OpSubject) -> Proof:
        reference = subject.gradient_reference or subject.reference
        named = subject.gradient_of or subject.against
        sample = subject.samples[0].copied()
        if subject.draws:
            return self.unproved("it draws random numbers")
        try:
            if second_gradients(subject, sample, reference) is None:
                return self.unproved(f"{named} has no second gradient")
        except NotTaken:
            return self.unproved(f"{named} cannot be differentiated twice")
        try:
            if _is_declared_once(subject, sample):
                return self.unproved("it is declared `once_differentiable`: a second gradient is refused")
        except NotTaken as error:
            return self.unproved(f"its backward raises {error}")
        return self.result(
            subject, _trials(subject), lambda said: f"equals that of {named} on {said} inputs", "no second gradient"
        )


def _is_declared_once(subject: OpSubject, sample: Sample) -> bool:
    """Only `backward` reaches the node that refuses: `torch.autograd.grad` for some inputs walks past it."""
    arriving = [incoming_for(each).requires_grad_().clone() for each in gradients(subject, sample).results]
    first = gradients(subject, sample, incoming=arriving, create_graph=True)
    graph = [value for value in first.values or () if value is not None and value.requires_grad]
    try:
        with subject.taking():
            torch.autograd.backward(graph, [torch.ones_like(each) for each in graph])
    except NotTaken as error:
        return REFUSED in str(error)
    return False


def second_gradients(
    subject: OpSubject, sample: Sample, function: Callable[..., Any] | None = None
) -> list[Tensor] | None:
    """Of the inputs, zero-filled. None: the first gradients have no graph, or there are none."""
    results = gradients(subject, sample, function).results
    arriving = [incoming_for(each).requires_grad_().clone() for each in results]
    first = gradients(subject, sample, function, incoming=arriving, create_graph=True)
    graph = [value for value in first.values or () if value is not None and value.requires_grad]
    if not graph:
        return None
    with subject.taking(function):
        incoming = [incoming_for(each) for each in graph]
        values = torch.autograd.grad(graph, first.leaves, incoming, allow_unused=True)
    pairs = zip(first.leaves, values, strict=True)
    return [torch.zeros_like(leaf) if value is None else value for leaf, value in pairs]


def _trials(subject: OpSubject) -> Iterator[Trial]:
    for sample in subject.samples:
        wide = sample.cast(torch.float64) if torch.float64 in subject.dtypes else sample
        yield Trial("", wide, lambda each: _compared(subject, each))


def _compared(subject: OpSubject, sample: Sample) -> Difference | None:
    reference = subject.gradient_reference or subject.reference
    expected = second_gradients(subject, sample.copied(), reference)
    if expected is None:
        return None
    if difference(zero_filled(gradients(subject, sample.copied())),
                  zero_filled(gradients(subject, sample.copied(), reference))):  # fmt: skip
        raise NotTaken(RuntimeError("the first gradient differs already"), refused=True)
    try:
        got = second_gradients(subject, sample.copied())
    except NotTaken as error:
        return Difference(f"the second backward raises {error}")
    if got is None:
        if not any(bool(each.any()) for each in expected):
            return None
        return Difference("the second gradient is silently zero: the gradient has no graph")
    found = difference(got, expected)
    return Difference(found.what.replace("the result", "the second gradient", 1), found.evidence) if found else None
