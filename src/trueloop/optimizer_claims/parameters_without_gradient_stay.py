"""parameters-without-gradient-stay: frozen and unused parameters keep their values, and change no other.

Two parameters without a gradient stand among the others, one first and one in the middle; a third has a gradient in
every second step only.
"""

from collections.abc import Sequence
from typing import ClassVar, Final, final

import torch
from torch import nn

from trueloop.optimizer_claims.optimizer_claim import ROUNDING, OptimizerClaim
from trueloop.optimizer_claims.optimizer_subject import OptimizerSubject, apart, moved, snapshot
from trueloop.optimizer_claims.problem import SEPARABLE
from trueloop.results.proof import Cause, Proof

__all__ = ["ParametersWithoutGradientStay"]

STEPS: Final = 20

DECAYED = Cause("weight decay, or momentum, before the test for a gradient", "`if p.grad is None: continue` first")
BREAK = Cause("the loop ends at a parameter without a gradient", "`continue`, not `break` or `return`")
POSITION = Cause("lists of parameters and of states are built apart and differ in length", "use self.state[p]")


@final
class ParametersWithoutGradientStay(OptimizerClaim):
    name = "parameters-without-gradient-stay"
    healthy = "a parameter without a gradient is not written, and the others train as if it were not there"
    causes: ClassVar[tuple[Cause, ...]] = (BREAK, DECAYED, POSITION)

    def try_optimizer(self, subject: OptimizerSubject) -> Proof:
        plain = subject.training(SEPARABLE)
        start = snapshot(plain.parameters)
        draws = torch.Generator().manual_seed(1)
        frozen = nn.Parameter(torch.randn(4, 1, generator=draws, dtype=torch.float64), requires_grad=False)
        unused = nn.Parameter(torch.randn(2, 2, generator=draws, dtype=torch.float64))
        kept = snapshot((frozen, unused))
        among = subject.training(SEPARABLE, groups=lambda given: [frozen, given[0], unused, *given[1:]])
        among.run(STEPS)
        for shown, before, after in zip(("a frozen", "an unused"), kept, (frozen, unused), strict=True):
            if not torch.equal(before, after):
                said = f"{shown} parameter without a gradient moved by {moved([before], [after]):.3g} in {STEPS} steps"
                return self.fails(said, {"parameter": shown}, self.likely_first(DECAYED), subject.place)
        distance = apart(among.parameters, plain.run(STEPS).parameters, start)
        if distance > ROUNDING:
            said = f"beside parameters without a gradient the others are {distance:.2g} apart after {STEPS} steps"
            return self.fails(said, {"apart": distance}, place=subject.place)
        return self._now_and_then(subject) or self.holds(
            f"untouched in {STEPS} steps; the others are {distance:.1g} apart", {"apart": distance}
        )

    def _now_and_then(self, subject: OptimizerSubject) -> Proof | None:
        """A parameter that some steps do not use, as in a mixture of experts."""

        def edit(step: int, parameters: Sequence[nn.Parameter]) -> None:
            if step % 2:
                parameters[0].grad = None

        if subject.needs_closure:
            return None  # several gradients a step: L-BFGS goes along a line that it found with all of them
        made, other = subject.training(SEPARABLE, edit=edit), subject.training(SEPARABLE)
        start, last = snapshot(other.parameters), 0.0
        for step in range(STEPS):
            before = snapshot(made.parameters[:1])
            made.step()
            other.step()
            last = moved(before, made.parameters[:1])
            if step % 2 and last:
                said = f"a parameter whose gradient is None in step {step + 1} moved by {last:.3g} in that step"
                return self.fails(said, {"step": step + 1}, self.likely_first(DECAYED), subject.place)
        distance = apart(made.parameters[1:], other.parameters[1:], start[1:])
        alone = subject.training(SEPARABLE, groups=lambda given: given[1:]).run(STEPS)
        if distance <= ROUNDING or apart(alone.parameters[1:], other.parameters[1:], start[1:]) > ROUNDING:
            return None  # or its parameters depend on one another, as where their common norm is clipped
        said = f"a parameter is {distance:.2g} apart where another parameter has a gradient in every second step only"
        return self.fails(said, {"apart": distance}, self.likely_first(POSITION), subject.place)
