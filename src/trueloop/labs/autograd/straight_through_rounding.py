"""straight-through-rounding: How can a network learn through a rounding, whose derivative is zero?

Rounding is flat almost everywhere: its true gradient is 0, and nothing in front of it learns. Quantization-aware
training rounds in the forward and pretends in the backward that it did not: a straight-through estimator. Its
gradient is wrong on purpose, so it must be compared with the gradient of the identity:

    trueloop probe ops.py:RoundStraight --against torch.round --gradient-of identity
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from trueloop.labs.lab import Lab, Page
from trueloop.op_claims.catalogue import OP_CLAIMS
from trueloop.op_claims.op_inputs import parsed_samples
from trueloop.op_claims.op_subject import OpSubject
from trueloop.op_claims.prove_op import prove_op
from trueloop.results.document import Axis, Plot, Series

__all__ = ["LAB"]


class RoundStraight(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return torch.round(x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g  # as if forward had returned x


def losses(rounded: Callable[[Tensor], Tensor]) -> list[float]:
    """Learn weights that, rounded, give these outputs: whole numbers from -3 to 3."""
    draws = torch.Generator().manual_seed(0)
    inputs, truth = torch.randn(64, 8, generator=draws), torch.randint(-3, 4, (8,), generator=draws).float()
    weight = torch.zeros(8, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.05)
    curve = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = ((inputs @ rounded(weight) - inputs @ truth) ** 2).mean()
        loss.backward()
        optimizer.step()
        curve.append(loss.item())
    return curve


@dataclass(frozen=True)
class Measured:
    plain: list[float]
    straight: list[float]
    claims: dict[str, str]  # what the gradient is compared with -> holds, fails


def identity(x: Tensor) -> Tensor:
    return x * 1


def measure() -> Measured:
    samples = tuple(parsed_samples(["f32[4,8]", "f32[17]"], torch.device("cpu")))
    claims = {}
    for name, gradient in (("torch.round", None), ("identity", identity)):
        subject = OpSubject(
            RoundStraight, "RoundStraight", samples, "of the lab", torch.round, "torch.round", gradient, name
        )
        proofs = prove_op(subject, name, [OP_CLAIMS.claim("gradient-equals-reference")]).proofs
        claims[name] = f"{proofs[0].result}: {proofs[0].measured}"
    return Measured(losses(torch.round), losses(RoundStraight.apply), claims)


def answer(page: Page, measured: Measured) -> None:
    plain, straight = measured.plain, measured.straight
    rows = [("torch.round", plain[0], plain[-1]), ("RoundStraight", straight[0], straight[-1])]
    page.table("Loss over 60 steps", ("rounding", "first", "last"), rows)
    series = tuple(
        Series(name, tuple((float(step), value) for step, value in enumerate(curve)), color=at)
        for at, (name, curve) in enumerate((("torch.round", plain), ("RoundStraight", straight)))
    )
    page.show(Plot("Loss", series, Axis("step"), Axis("loss", zero=True)))
    page.table("gradient-equals-reference, as `probe` tests it", ("compared with", "result"), measured.claims.items())
    page.says("Through `torch.round` nothing is learned: the loss stays where it is.", plain[0] == plain[-1])
    page.says("Straight through, the same training finds the whole numbers.", straight[-1] < 0.01 * straight[0])
    honest = measured.claims["torch.round"].startswith("fails") and measured.claims["identity"].startswith("holds")
    page.says("Its gradient is not that of `round`, and exactly that of the identity.", honest)


LAB = Lab(code=(RoundStraight, losses), measure=measure, answer=answer)
