"""fake-equals-real: on fake tensors the results have the shape and dtype of the real ones; a custom op's strides too.

torch.compile, torch.export and memory planning believe the fake. A wrong one gives wrong memory accesses, or an error
far away.
"""

from collections.abc import Iterator
from typing import Any, ClassVar, Final, final

from torch import Tensor

from trueloop.op_claims.difference import Difference
from trueloop.op_claims.layouts import LAYOUTS
from trueloop.op_claims.op_claim import OpClaim, Trial
from trueloop.op_claims.op_subject import NotTaken, OpSubject
from trueloop.op_claims.sample import Sample, resized
from trueloop.results.proof import Cause, Proof
from trueloop.torch_private.custom_ops import has_fake
from trueloop.torch_private.dispatch import fake_mode

__all__ = ["FakeEqualsReal"]

SIZES: Final = Cause("a size is fixed in the fake", "compute it from `x.shape`")


@final
class FakeEqualsReal(OpClaim):
    name = "fake-equals-real"
    healthy = "the fake results have the real shape, dtype and device; those of a custom op the real strides too"
    causes: ClassVar[tuple[Cause, ...]] = (
        Cause(
            "`register_fake` gives a different shape, dtype or stride", "build it like the result: `x.new_empty(...)`"
        ),
        Cause(
            "`torch.empty_like(x)` keeps the strides of x", "if the result is contiguous, say `x.new_empty(x.shape)`"
        ),
        SIZES,
    )

    def try_op(self, subject: OpSubject) -> Proof:
        registered = subject.kind in ("custom op", "operator")
        if registered and not has_fake(subject.op):
            return self.unproved("no fake is registered: add `@op.register_fake`, so that torch.compile takes it")
        try:
            _fake(subject, subject.samples[0])
        except NotTaken as error:
            if not registered:
                return self.unproved(
                    f"it does not run on fake tensors ({error}): register it as a custom op with a fake"
                )
        return self.result(
            subject,
            _trials(subject, registered),
            lambda said: f"fake and real results agree on {said} inputs",
            "it does not run on fake tensors",
        )


def _trials(subject: OpSubject, strict: bool) -> Iterator[Trial]:
    def breaks(sample: Sample) -> Difference | None:
        return _compared(subject, sample, strict)

    def transposed(sample: Sample) -> Difference | None:
        return _compared(subject, sample.map(LAYOUTS["transposed"]), strict)

    for sample in subject.samples:
        yield Trial("", sample, breaks)
        yield Trial("(transposed)", sample, transposed)
        sizes = sorted({size for tensor in sample.tensors() for size in tensor.shape if size > 1})
        for size in sizes:
            for smaller in dict.fromkeys((size - 1, 1, 0)):
                yield Trial("", resized(sample, size, smaller), breaks, SIZES)


def _fake(subject: OpSubject, sample: Sample) -> list[Any]:
    with fake_mode() as mode:
        return subject.results(sample.map(mode.from_tensor))


def _compared(subject: OpSubject, sample: Sample, strict: bool) -> Difference | None:
    real = subject.results(sample.map(lambda tensor: tensor.clone()))
    try:
        fake = _fake(subject, sample)
    except NotTaken as error:
        if strict and not error.refused:
            return Difference(f"the fake raises {error}")
        raise
    if len(fake) != len(real):
        return Difference(f"the fake gives {len(fake)} results instead of {len(real)}")
    for one, other in zip(fake, real, strict=True):
        found = _of_one(one, other, strict) if isinstance(one, Tensor) and isinstance(other, Tensor) else None
        if found is not None:
            return found
    return None


def _of_one(fake: Tensor, real: Tensor, strict: bool) -> Difference | None:
    if not all(isinstance(size, int) for size in fake.shape):
        return None  # a size that depends on values
    for about in ("shape", "dtype", "device"):
        one, other = getattr(fake, about), getattr(real, about)
        if one != other:
            return Difference(f"the fake's {about} is {_text(one)}, the real one's {_text(other)}")
    moved = [dim for dim, size in enumerate(real.shape) if size > 1 and fake.stride(dim) != real.stride(dim)]
    if strict and real.numel() and moved:
        return Difference(f"the fake's strides are {list(fake.stride())}, the real ones {list(real.stride())}")
    return None


def _text(value: Any) -> str:
    return str(list(value)) if isinstance(value, tuple) else str(value).removeprefix("torch.")
