"""streams-agree: on a CUDA stream of its own, with inputs that are still being written, the result is the same."""

from collections.abc import Callable, Iterator
from typing import ClassVar, Final, final

import torch

from trueloop.op_claims.difference import Difference, difference
from trueloop.op_claims.op_claim import OpClaim, Trial
from trueloop.op_claims.op_subject import OpSubject
from trueloop.op_claims.sample import Sample
from trueloop.results.proof import Cause, Proof

__all__ = ["StreamsAgree"]

BUSY: Final = 4096  # Rows of the products that keep the stream busy while the operation is launched


@final
class StreamsAgree(OpClaim):
    name = "streams-agree"
    healthy = "the result on a second stream equals that on the default stream"
    causes: ClassVar[tuple[Cause, ...]] = (
        Cause("the kernel is launched on the default stream", "pass `torch.cuda.current_stream()` to the launch"),
        Cause("memory is used on a stream that does not own it", "`tensor.record_stream(stream)`"),
    )

    def try_op(self, subject: OpSubject) -> Proof:
        if subject.device.type != "cuda":
            return self.unproved("the operation was tested on the CPU, which has no streams")
        if subject.draws or subject.in_place:
            return self.unproved("it draws random numbers, or writes its inputs")
        return self.result(
            subject,
            _trials(subject),
            lambda said: f"a second stream gives the same result in {said} calls",
            "no inputs",
        )


def _trials(subject: OpSubject) -> Iterator[Trial]:
    for sample in subject.samples:
        yield Trial("(second stream)", sample, _breaks(subject))


def _breaks(subject: OpSubject) -> Callable[[Sample], Difference | None]:
    def breaks(sample: Sample) -> Difference | None:
        expected = subject.results(sample.copied())
        given = sample.map(torch.zeros_like)
        torch.cuda.synchronize()
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        with torch.cuda.stream(stream):
            busy = torch.ones(BUSY, BUSY, device=subject.device)
            for _ in range(20):
                busy = busy @ busy * 1e-4
            for target, source in zip(given.tensors(), sample.tensors(), strict=True):
                target.copy_(source)  # arrives only now: a kernel on the default stream reads zeros
            got = subject.results(given)
        stream.synchronize()
        return difference(got, expected)

    return breaks
