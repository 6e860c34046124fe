"""vmap-equals-loop: where a vmap rule is declared, or torch finds one, it gives what a loop over samples gives."""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Final, final

import torch
from torch import Tensor

from trueloop.op_claims.difference import Difference, difference
from trueloop.op_claims.op_claim import OpClaim, Trial
from trueloop.op_claims.op_subject import NotTaken, OpSubject
from trueloop.op_claims.sample import Sample
from trueloop.results.proof import Cause, Proof
from trueloop.torch_private.custom_ops import registered_vmap
from trueloop.torch_private.dispatch import pytree

__all__ = ["VmapEqualsLoop"]

SIZE: Final = 3


@final
class VmapEqualsLoop(OpClaim):
    name = "vmap-equals-loop"
    healthy = "torch.vmap gives the stacked results of single calls, for every choice of batched inputs"
    causes: ClassVar[tuple[Cause, ...]] = (
        Cause("dimensions are not shifted", "with the batch in front, `dim=1` becomes `dim=2`: `x.movedim(in_dim, 0)`"),
        Cause("an `in_dims` of None or of 1 is not handled", "each input may be batched, or not, along any dimension"),
        Cause("the returned `out_dims` are wrong", "say where the batch lies in each result"),
    )

    def try_op(self, subject: OpSubject) -> Proof:
        declared = _is_declared(subject)
        if subject.in_place or subject.draws:
            return self.unproved("it writes its inputs, or draws random numbers")
        if not declared:
            if subject.kind in ("custom op", "operator", "autograd.Function"):
                return self.unproved("no vmap rule is declared")
            try:
                _stacked(subject, subject.samples[0], _all(subject.samples[0]), 0)
            except NotTaken as error:
                return self.unproved(f"torch finds no vmap rule for it ({error})")
        return self.result(
            subject,
            _trials(subject, declared),
            lambda said: f"equals a loop over {SIZE} samples for {said} choices of batched inputs",
            "torch.vmap takes none of the inputs",
        )


def _is_declared(subject: OpSubject) -> bool:
    own = getattr(subject.op, "vmap", None) is not torch.autograd.Function.vmap
    function = subject.kind == "autograd.Function"
    return registered_vmap(subject.op) or (function and (own or getattr(subject.op, "generate_vmap_rule", False)))


def _all(sample: Sample) -> tuple[int, ...]:
    return tuple(range(len(sample.tensors())))


def _trials(subject: OpSubject, declared: bool) -> Iterator[Trial]:
    for sample in subject.samples:
        some = [_all(sample), *((number,) for number in _all(sample) if len(sample.tensors()) > 1)]
        for batched in some:
            for dim in (0, 1):
                label = f"(vmap over tensors {', '.join(map(str, batched))}, in_dims {dim})"
                yield Trial(label, sample, _breaks(subject, batched, dim, declared))


def _breaks(
    subject: OpSubject, batched: tuple[int, ...], dim: int, declared: bool
) -> Callable[[Sample], Difference | None]:
    def breaks(sample: Sample) -> Difference | None:
        singles = [subject.results(_moved(sample, batched, step)) for step in range(SIZE)]
        expected = [torch.stack(list(each)) for each in zip(*singles, strict=True)]
        try:
            got = _stacked(subject, sample, batched, dim)
        except NotTaken as error:
            if not declared:
                raise
            return Difference(f"torch.vmap raises {error}")
        return difference(got, expected)

    return breaks


def _moved(sample: Sample, batched: tuple[int, ...], step: int) -> Sample:
    """The sample of this number: other values in the batched tensors."""
    numbers = iter(_all(sample))

    def move(tensor: Tensor) -> Tensor:
        return tensor.roll(step) if next(numbers) in batched and tensor.numel() else tensor.clone()

    return sample.map(move)


def _stacked(subject: OpSubject, sample: Sample, batched: tuple[int, ...], dim: int) -> list[Any]:
    steps = [_moved(sample, batched, step).tensors() for step in range(SIZE)]
    given = [
        torch.stack(list(several), min(dim, several[0].dim())) if number in batched else several[0]
        for number, several in enumerate(zip(*steps, strict=True))
    ]
    dims = tuple(min(dim, steps[0][number].dim()) if number in batched else None for number in _all(sample))

    def call(*tensors: Tensor) -> Any:
        return sample.replace(iter(tensors)).call(subject.call)

    with subject.taking():
        torch.manual_seed(0)
        return [leaf for leaf in pytree.tree_leaves(torch.vmap(call, dims)(*given)) if leaf is not None]
