"""gradient-equals-differences: the gradient equals finite differences of the forward, in float64 (gradcheck)."""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Final, final

import torch
from torch import Tensor
from torch.autograd import gradcheck
from torch.autograd.gradcheck import GradcheckError

from trueloop.op_claims.difference import Difference
from trueloop.op_claims.gradients import gradients
from trueloop.op_claims.op_claim import OpClaim, Trial
from trueloop.op_claims.op_subject import NotTaken, OpSubject
from trueloop.op_claims.sample import Sample, resized
from trueloop.results.proof import Cause, Proof
from trueloop.torch_private.dispatch import pytree

__all__ = ["GradientEqualsDifferences", "mismatch"]

LARGEST: Final = 64  # Elements of an input: a difference is computed for each


@final
class GradientEqualsDifferences(OpClaim):
    name = "gradient-equals-differences"
    healthy = "gradcheck passes in float64"
    causes: ClassVar[tuple[Cause, ...]] = (
        Cause("the derivative is wrong", "compare with the derivative on paper: sign, factor, chain rule"),
        Cause("the forward computes in float32", "look for `.float()`: differences of 1e-6 are lost there"),
        Cause("the gradient is meant to differ", "a straight-through estimator says `--gradient-of identity`"),
    )

    def try_op(self, subject: OpSubject) -> Proof:
        if subject.gradient_of:
            return self.unproved(f"the gradient is that of {subject.gradient_of}, not of the forward")
        if subject.draws:
            return self.unproved("it draws random numbers")
        if torch.float64 not in subject.dtypes:
            return self.unproved("it does not take float64")
        sample = subject.samples[0].copied().cast(torch.float64)
        try:
            if gradients(subject, sample).values is None:
                return self.unproved("its result has no gradient")
        except NotTaken as error:
            return self.unproved(f"its backward raises {error}")
        return self.result(subject, _trials(subject), lambda said: f"gradcheck passes on {said} inputs", "no inputs")


def _trials(subject: OpSubject) -> Iterator[Trial]:
    for sample in subject.samples:
        small = sample.cast(torch.float64)
        while any(tensor.numel() > LARGEST for tensor in small.tensors()):
            size = max(size for tensor in small.tensors() for size in tensor.shape)
            small = resized(small, size, (size + 1) // 2)
        yield Trial("", small, lambda each: _compared(subject, each))


def _compared(subject: OpSubject, sample: Sample) -> Difference | None:
    found = mismatch(subject, sample, subject.call)
    if found is None or (subject.reference is not None and mismatch(subject, sample, subject.reference) is not None):
        return None  # at a kink or an integer the reference's own gradient differs too
    return Difference(found)


def mismatch(subject: OpSubject, sample: Sample, function: Callable[..., Any], check: Any = gradcheck) -> str | None:
    """What gradcheck says, or None."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in sample.floats()]

    def run(*values: Tensor) -> Any:
        given = iter(values)
        torch.manual_seed(0)
        call = sample.map(lambda tensor: next(given) if tensor.is_floating_point() else tensor)
        if subject.in_place:
            call = call.map(lambda tensor: tensor.clone())
        results = pytree.tree_leaves(call.call(function))
        return tuple(each for each in results if isinstance(each, Tensor) and each.is_floating_point())

    with subject.taking(function):
        try:
            check(run, tuple(leaves), check_undefined_grad=False)
        except GradcheckError as error:
            return " ".join(str(error).split())[:200]
        except RuntimeError as error:
            if "gradcheck" in str(error).lower():
                return " ".join(str(error).split())[:200]
            raise
    return None
