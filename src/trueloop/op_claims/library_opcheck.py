"""library-opcheck: `torch.library.opcheck` passes: schema, autograd registration, fake tensors, AOT dispatch."""

from collections.abc import Iterator
from typing import Any, ClassVar, final

import torch
from torch import Tensor

from trueloop.op_claims.difference import Difference
from trueloop.op_claims.gradients import gradients
from trueloop.op_claims.op_claim import OpClaim, Trial
from trueloop.op_claims.op_subject import NotTaken, OpSubject
from trueloop.op_claims.sample import Sample
from trueloop.results.proof import Cause, Proof
from trueloop.torch_private.custom_ops import default_overload, has_fake

__all__ = ["LibraryOpcheck"]


@final
class LibraryOpcheck(OpClaim):
    name = "library-opcheck"
    healthy = "every test of opcheck passes"
    causes: ClassVar[tuple[Cause, ...]] = (
        Cause("the schema hides that an input is written or returned", "name it in `mutates_args`; return a copy"),
        Cause("the fake does not fit the real result", "return the same shape, dtype and strides in `register_fake`"),
        Cause("the gradient is registered at the wrong key", "use `register_autograd`"),
    )

    def try_op(self, subject: OpSubject) -> Proof:
        if subject.kind not in ("custom op", "operator"):
            return self.unproved(f"opcheck is for operators of torch.library, and this is a plain {subject.kind}")
        if not has_fake(subject.op):
            return self.unproved("no fake is registered: add `@op.register_fake`, so that torch.compile takes it")
        return self.result(subject, _trials(subject), lambda said: f"opcheck passes on {said} inputs", "no inputs")


def _trials(subject: OpSubject) -> Iterator[Trial]:
    for sample in subject.samples[:2]:
        yield Trial("", sample, lambda each: _checked(subject, each))


def _checked(subject: OpSubject, sample: Sample) -> Difference | None:
    try:
        differentiable = gradients(subject, sample.copied()).values is not None
    except NotTaken:
        differentiable = False

    def leaf(tensor: Tensor) -> Tensor:
        return tensor.requires_grad_() if differentiable and tensor.is_floating_point() else tensor

    given = sample.copied().map(leaf)
    with subject.taking():
        answers: dict[str, Any] = torch.library.opcheck(
            default_overload(subject.op), given.args, dict(given.kwargs), raise_exception=False
        )
    failed = {name: answer for name, answer in answers.items() if isinstance(answer, BaseException)}
    if not failed:
        return None
    name, answer = next(iter(failed.items()))
    return Difference(f"{name} fails: {' '.join(str(answer).split())[:240]}", {"failed": list(failed)})
