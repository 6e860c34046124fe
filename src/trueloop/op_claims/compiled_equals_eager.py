"""compiled-equals-eager: torch.compile takes it as one graph, for changing sizes too, and gives the same answers."""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Final, final

import torch

from trueloop.op_claims.difference import Difference, difference
from trueloop.op_claims.gradients import gradients, zero_filled
from trueloop.op_claims.op_claim import OpClaim, Trial
from trueloop.op_claims.op_subject import NotTaken, OpSubject
from trueloop.op_claims.sample import Sample, resized
from trueloop.results.proof import Cause, Proof
from trueloop.torch_private.compiler import reset_compiler

__all__ = ["CompiledEqualsEager"]

BREAK: Final = Cause("a graph break", "look for `.item()`, `if` on values, `print`, numpy; or make it a custom op")


@final
class CompiledEqualsEager(OpClaim):
    name = "compiled-equals-eager"
    healthy = "torch.compile(fullgraph=True) gives the eager results and gradients"
    causes: ClassVar[tuple[Cause, ...]] = (
        BREAK,
        Cause("a custom op has no fake, or a wrong one", "`@op.register_fake`; `trueloop probe ... fake-equals-real`"),
        Cause("an undeclared write or view", "`mutates_args`, `ctx.mark_dirty`"),
    )

    def try_op(self, subject: OpSubject) -> Proof:
        if subject.draws:
            return self.unproved("it draws random numbers: the compiler draws others")
        if subject.in_place and subject.kind == "autograd.Function":
            return self.unproved("torch.compile does not take `ctx.mark_dirty`")
        if subject.reference is not None and _refuses(subject, subject.samples[0], subject.reference):
            return self.unproved(f"{subject.against} is not taken as one graph either")
        try:
            used = ", ".join(subject.backends)
            return self.result(
                subject,
                _trials(subject),
                lambda said: f"one graph, and the eager answers, in {said} calls ({used})",
                "no inputs",
            )
        finally:
            reset_compiler()


def _trials(subject: OpSubject) -> Iterator[Trial]:
    for backend in subject.backends:
        yield Trial(f"({backend})", subject.samples[0], _breaks(subject, backend), BREAK)
    yield Trial("(dynamic sizes)", subject.samples[0], _breaks(subject, subject.backends[0], dynamic=True))


def _refuses(subject: OpSubject, sample: Sample, function: Callable[..., Any]) -> bool:
    try:
        subject.results(sample.copied(), _compiled(function, "eager"))
    except NotTaken:
        return True
    return False


def _compiled(function: Callable[..., Any], backend: str, dynamic: bool | None = None) -> Callable[..., Any]:
    reset_compiler()

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    compiled: Callable[..., Any] = torch.compile(call, fullgraph=True, backend=backend, dynamic=dynamic)
    return compiled


def _breaks(subject: OpSubject, backend: str, dynamic: bool | None = None) -> Callable[[Sample], Difference | None]:
    def breaks(sample: Sample) -> Difference | None:
        compiled = _compiled(subject.call, backend, dynamic)
        sizes = sorted({size for tensor in sample.tensors() for size in tensor.shape if size > 2}) if dynamic else []
        for given in [sample, *(resized(sample, size, size - 1) for size in sizes)]:
            try:
                expected = subject.results(given.copied())
            except NotTaken:
                continue
            try:
                found = difference(subject.results(given.copied(), compiled), expected)
            except NotTaken as error:
                return Difference(f"torch.compile(fullgraph=True) raises {error}")
            if found is not None:
                return Difference(f"compiled, {found.what}", found.evidence)
        return _gradient(subject, sample, compiled)

    return breaks


def _gradient(subject: OpSubject, sample: Sample, compiled: Callable[..., Any]) -> Difference | None:
    try:
        eager = gradients(subject, sample.copied())
    except NotTaken:
        return None
    if eager.values is None:
        return None
    try:
        found = difference(zero_filled(gradients(subject, sample.copied(), compiled)), zero_filled(eager))
    except NotTaken as error:
        return Difference(f"compiled, the backward raises {error}")
    return Difference(f"compiled, {found.what.replace('result', 'gradient', 1)}", found.evidence) if found else None
