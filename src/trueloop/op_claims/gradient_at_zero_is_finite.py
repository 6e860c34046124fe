"""gradient-at-zero-is-finite: where an input is 0 and the reference's gradient is finite, so is this one."""

from collections.abc import Iterator
from typing import ClassVar, final

import torch
from torch import Tensor

from trueloop.op_claims.difference import Difference
from trueloop.op_claims.gradients import gradients, zero_filled
from trueloop.op_claims.op_claim import OpClaim, Trial
from trueloop.op_claims.op_subject import NotTaken, OpSubject
from trueloop.op_claims.sample import Sample
from trueloop.results.proof import Cause, Proof

__all__ = ["GradientAtZeroIsFinite"]


@final
class GradientAtZeroIsFinite(OpClaim):
    name = "gradient-at-zero-is-finite"
    needs_reference = True
    healthy = "a finite gradient at zero wherever the reference has one"
    causes: ClassVar[tuple[Cause, ...]] = (
        Cause(
            "the derivative of a square root or a logarithm at 0 is inf",
            "add a small number inside: `(s + eps).sqrt()`",
        ),
        Cause("`torch.where` hides the value and not its gradient", "choose the input before the function, not after"),
    )

    def try_op(self, subject: OpSubject) -> Proof:
        return self.result(
            subject,
            _trials(subject),
            lambda said: f"finite wherever the gradient of {subject.against} is, on {said} inputs with zeros",
            f"neither it nor {subject.against} has a gradient there",
        )


def _trials(subject: OpSubject) -> Iterator[Trial]:
    for sample in subject.samples:
        for number, tensor in enumerate(sample.tensors()):
            if tensor.is_floating_point() and tensor.numel():
                yield Trial("all zero", sample.map_one(number, torch.zeros_like), lambda each: _compared(subject, each))
                yield Trial("with 0", sample.map_one(number, _with_zero), lambda each: _compared(subject, each))


def _with_zero(tensor: Tensor) -> Tensor:
    changed = tensor.clone()
    changed.view(-1)[0] = 0
    return changed


def _compared(subject: OpSubject, sample: Sample) -> Difference | None:
    expected = gradients(subject, sample.copied(), subject.gradient_reference or subject.reference)
    got = gradients(subject, sample.copied())
    if expected.values is None or got.values is None:
        raise NotTaken(RuntimeError("no gradient"), refused=True)
    for number, (one, other) in enumerate(zip(zero_filled(got), zero_filled(expected), strict=True)):
        wrong = ~one.isfinite() & other.isfinite()
        if bool(wrong.any()):
            value = one[wrong].flatten()[0].item()
            return Difference(f"the gradient of tensor {number} is {value:g} where the reference's is finite")
    return None
