"""layout-does-not-matter: weights that are not contiguous in memory (transposed, channels-last) train like others."""

from dataclasses import replace
from typing import ClassVar, Final, final

from torch import nn

from trueloop.optimizer_claims.optimizer_claim import ROUNDING, OptimizerClaim
from trueloop.optimizer_claims.optimizer_subject import OptimizerSubject, apart, snapshot
from trueloop.optimizer_claims.problem import QUADRATIC
from trueloop.results.proof import Cause, Proof

__all__ = ["LayoutDoesNotMatter"]

STEPS: Final = 10

COPY = Cause("it writes into a copy: p.reshape(-1), p.contiguous(), p.flatten()", "write into p itself: p.add_(...)")
POINTER = Cause("a kernel that takes the memory to be contiguous", "read the strides, or refuse")


@final
class LayoutDoesNotMatter(OptimizerClaim):
    name = "layout-does-not-matter"
    healthy = "the same weights, however they lie in memory"
    causes: ClassVar[tuple[Cause, ...]] = (COPY, POINTER)

    def try_optimizer(self, subject: OptimizerSubject) -> Proof:
        matrices = replace(QUADRATIC, shapes=((5, 3), (4, 6)))
        plain, turned = subject.training(matrices), subject.training(matrices, groups=_turn)
        start = snapshot(plain.parameters)
        distance = apart(turned.run(STEPS).parameters, plain.run(STEPS).parameters, start)
        if distance > ROUNDING:
            said = f"transposed in memory, the weights are {distance:.2g} apart after {STEPS} steps"
            return self.fails(said, {"apart": distance}, place=subject.place)
        return self.holds(f"transposed in memory, {distance:.1g} apart after {STEPS} steps", {"apart": distance})


def _turn(parameters: list[nn.Parameter]) -> list[nn.Parameter]:
    """The same values, with columns next to one another."""
    for each in parameters:
        each.data = each.data.t().contiguous().t()
    return parameters
