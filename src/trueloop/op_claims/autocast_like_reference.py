"""autocast-like-reference: under autocast the result has the reference's dtype, and a backward works."""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Final, final

import torch
from torch import Tensor

from trueloop.op_claims.difference import Difference
from trueloop.op_claims.gradients import gradients
from trueloop.op_claims.op_claim import OpClaim, Trial
from trueloop.op_claims.op_subject import NotTaken, OpSubject
from trueloop.op_claims.sample import Sample, short_dtype
from trueloop.results.proof import Cause, Proof

__all__ = ["AutocastLikeReference"]

BACKWARD: Final = Cause("backward runs outside of autocast", "`torch.amp.custom_fwd` and `custom_bwd` set it there too")


@final
class AutocastLikeReference(OpClaim):
    name = "autocast-like-reference"
    needs_reference = True
    healthy = "float32 inputs under bfloat16 autocast give the reference's dtype, and gradients"
    causes: ClassVar[tuple[Cause, ...]] = (
        Cause("autocast does not know it", "`op.register_autocast(...)`, or `custom_fwd(cast_inputs=torch.bfloat16)`"),
        Cause("dtypes are mixed inside", "buffers of `x.dtype` meet results that autocast made bfloat16"),
        BACKWARD,
    )

    def try_op(self, subject: OpSubject) -> Proof:
        if torch.float32 not in subject.dtypes:
            return self.unproved("it does not take float32")
        return self.result(
            subject,
            _trials(subject),
            lambda said: f"the dtype of {subject.against} in {said} calls under bfloat16 autocast",
            f"{subject.against} does not run under autocast",
        )


def _trials(subject: OpSubject) -> Iterator[Trial]:
    for sample in subject.samples:
        yield Trial("(autocast)", sample.cast(torch.float32), _forward(subject))
        yield Trial("(autocast, backward)", sample.cast(torch.float32), _backward(subject), BACKWARD)


def _under_autocast(subject: OpSubject, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast(subject.device.type, dtype=torch.bfloat16):
            return function(*args, **kwargs)

    return call


def _forward(subject: OpSubject) -> Callable[[Sample], Difference | None]:
    def breaks(sample: Sample) -> Difference | None:
        assert subject.reference is not None
        expected = subject.results(sample.copied(), _under_autocast(subject, subject.reference))
        try:
            got = subject.results(sample.copied(), _under_autocast(subject, subject.call))
        except NotTaken as error:
            if error.refused:
                raise
            return Difference(f"it raises {error}")
        pairs = [(one, other) for one, other in zip(got, expected, strict=False) if isinstance(one, Tensor)]
        for one, other in pairs:
            if isinstance(other, Tensor) and one.dtype != other.dtype:
                said = f"the result is {short_dtype(one.dtype)}, that of {subject.against} {short_dtype(other.dtype)}"
                return Difference(said)
        return None

    return breaks


def _backward(subject: OpSubject) -> Callable[[Sample], Difference | None]:
    def breaks(sample: Sample) -> Difference | None:
        assert subject.reference is not None
        gradients(subject, sample.copied())  # without autocast it works
        gradients(subject, sample.copied(), _under_autocast(subject, subject.reference))
        try:
            gradients(subject, sample.copied(), _under_autocast(subject, subject.call))
        except NotTaken as error:
            return Difference(f"the backward raises {error}")
        return None

    return breaks
