"""maximize-is-used: with maximize=True it climbs: the steps on -f are those of a minimization of f."""

from dataclasses import replace
from typing import ClassVar, Final, final

from trueloop.optimizer_claims.optimizer_claim import ROUNDING, OptimizerClaim
from trueloop.optimizer_claims.optimizer_subject import OptimizerSubject, apart, snapshot
from trueloop.optimizer_claims.problem import QUADRATIC
from trueloop.results.proof import Cause, Proof

__all__ = ["MaximizeIsUsed"]

STEPS: Final = 10

IGNORED = Cause("maximize is accepted and not used", "`grad = -grad if group['maximize'] else grad`")
DECAYED = Cause("weight decay is negated with the gradient", "negate before weight decay is added")


@final
class MaximizeIsUsed(OptimizerClaim):
    name = "maximize-is-used"
    healthy = "maximize=True on -f gives the weights of a minimization of f"
    causes: ClassVar[tuple[Cause, ...]] = (IGNORED, DECAYED)

    def try_optimizer(self, subject: OptimizerSubject) -> Proof:
        if not subject.has("maximize"):
            return self.unproved("it has no argument maximize")
        negative = replace(QUADRATIC, loss=lambda given: -QUADRATIC.loss(given))
        down, up = subject.training(QUADRATIC), subject.training(negative, maximize=True)
        start = snapshot(down.parameters)
        distance = apart(up.run(STEPS).parameters, down.run(STEPS).parameters, start)
        if distance > ROUNDING:
            said = f"maximizing -f and minimizing f are {distance:.2g} apart after {STEPS} steps"
            return self.fails(said, {"apart": distance}, place=subject.place)
        return self.holds(f"maximizing -f is minimizing f ({distance:.1g} apart)", {"apart": distance})
