"""loss-falls: it minimizes a quadratic, Rosenbrock's function and the loss of a small network.

With the first of several learning rates that does it: a rate that does not fit is not the optimizer's fault.
"""

import math
from typing import Any, ClassVar, Final, final

from trueloop.optimizer_claims.optimizer_claim import OptimizerClaim
from trueloop.optimizer_claims.optimizer_subject import OptimizerSubject
from trueloop.optimizer_claims.problem import NET, QUADRATIC, ROSENBROCK, Problem
from trueloop.results.proof import Cause, Proof

__all__ = ["LossFalls"]

STEPS: Final = 200
FACTORS: Final = (1.0, 0.1, 10.0, 0.01, 0.001)
FALL: Final = 0.99  # share of the first loss that must be reached

SIGN = Cause("the sign of the update", "p.add_(step, alpha=-lr)")
SIZE = Cause("steps of a wrong size: lr squared, a missing division", "print the first update beside lr * gradient")


@final
class LossFalls(OptimizerClaim):
    name = "loss-falls"
    healthy = f"each loss falls in {STEPS} steps"
    causes: ClassVar[tuple[Cause, ...]] = (SIGN, SIZE)

    def try_optimizer(self, subject: OptimizerSubject) -> Proof:
        shares: dict[str, float] = {}
        for problem in (QUADRATIC, ROSENBROCK, NET):
            first, last = _best(subject, problem)
            shares[problem.name] = last / first
            if not last < FALL * first:
                said = (
                    f"on {problem.name} the loss goes from {first:.4g} to {last:.4g} in {STEPS} steps, with the best of"
                )
                rates = f"{len(FACTORS)} learning rates"
                return self.fails(f"{said} {rates}", {"first": first, "last": last}, place=subject.place)
        shown = ", ".join(f"{share:.1%} on {name}" for name, share in shares.items())
        return self.holds(f"what is left of the first loss after {STEPS} steps: {shown}", shares)


def _best(subject: OptimizerSubject, problem: Problem) -> tuple[float, float]:
    """The losses with the first learning rate that lowers them, or the lowest ones."""
    tried = []
    for factor in FACTORS if subject.lr is not None else FACTORS[:1]:
        tried.append(_losses(subject, problem, factor))
        if tried[-1][1] < FALL * tried[-1][0]:
            break
    return min(tried, key=lambda pair: pair[1])


def _losses(subject: OptimizerSubject, problem: Problem, factor: float) -> tuple[float, float]:
    """The first, and the last; infinite if it is not finite."""
    changes: dict[str, Any] = {} if subject.lr is None else {"lr": subject.lr * factor}
    training = subject.training(problem, **changes)
    first = training.step()
    training.run(subject.steps(STEPS) - 1)
    last = float(problem.loss(training.parameters).detach())
    return first, last if math.isfinite(last) else math.inf
