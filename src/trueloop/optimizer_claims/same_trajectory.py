"""same-trajectory: it trains like its reference.

A hundred steps on several problems, in float64 so that rounding does not hide a difference, and in float32, where it
may be as far from the float64 training as the reference is.
"""

from typing import ClassVar, Final, final

import torch

from trueloop.optimizer_claims.optimizer_claim import ROUNDING, OptimizerClaim
from trueloop.optimizer_claims.optimizer_subject import NotTaken, OptimizerSubject, apart, moved
from trueloop.optimizer_claims.problem import PROBLEMS, Problem
from trueloop.results.proof import Cause, Proof

__all__ = ["SameTrajectory"]

STEPS: Final = 100
NARROW: Final = 20.0  # how many times the reference's own float32 error is rounding

FORMULA = Cause("the update itself: sign, learning rate, eps, bias correction", "compute the first step manually")
HISTORY = Cause(
    "what is kept between steps: a buffer that is not cloned, a wrong decay", "print the state after step 1"
)
DECAY = Cause("weight decay: added to the gradient, or taken from the weights", "with weight_decay=0 both agree")
EPS = Cause("eps: inside or outside of the square root", "only the smallest gradients show it")
WIDTH = Cause("the state or the update is kept in a narrower type", "print the dtype of each tensor of the state")


@final
class SameTrajectory(OptimizerClaim):
    name = "same-trajectory"
    healthy = f"the weights of {STEPS} steps are those of the reference, to rounding"
    needs_reference = True
    causes: ClassVar[tuple[Cause, ...]] = (FORMULA, HISTORY, DECAY, EPS, WIDTH)

    def try_optimizer(self, subject: OptimizerSubject) -> Proof:
        furthest = 0.0
        for problem in PROBLEMS:
            mine, other = (
                each(problem).path(subject.steps(STEPS)) for each in (subject.training, subject.reference_training)
            )
            distances = [apart(one, two, other[0]) for one, two in zip(mine[1:], other[1:], strict=True)]
            if max(distances) > ROUNDING:
                return self._differs(subject, problem, mine, other, distances)
            furthest = max(furthest, *distances)
        narrow = self._narrow(subject)
        return narrow or self.holds(
            f"at most {furthest:.1g} apart from {subject.against}, relative to the way gone, in {STEPS} steps on each "
            f"of {len(PROBLEMS)} problems",
            {"furthest": furthest, "steps": STEPS, "problems": [problem.name for problem in PROBLEMS]},
        )

    def _differs(
        self, subject: OptimizerSubject, problem: Problem, mine: list[list[torch.Tensor]],
        other: list[list[torch.Tensor]], distances: list[float],
    ) -> Proof:  # fmt: skip
        step = next(number for number, each in enumerate(distances) if each > ROUNDING) + 1
        ways = [moved(path[step - 1], path[step]) for path in (mine, other)]
        ratio = ways[0] / ways[1] if ways[1] else float("inf")
        said = (
            f"on {problem.name} it leaves {subject.against} in step {step}: the weights move {ways[0]:.4g} there, "
            f"{ratio:.4g} times as far as those of the reference; after {STEPS} steps they are {distances[-1]:.2g} "
            "apart, relative to the way gone"
        )
        evidence = {"problem": problem.name, "first_step": step, "ratio_of_that_step": ratio, "apart": distances[-1]}
        likely = FORMULA if step == 1 else HISTORY
        if problem is PROBLEMS[-1]:
            likely = EPS
        elif self._agrees_without_decay(subject, problem):
            likely = DECAY
        return self.fails(said, evidence, self.likely_first(likely), subject.place)

    def _agrees_without_decay(self, subject: OptimizerSubject, problem: Problem) -> bool:
        if not subject.has("weight_decay") or not subject.defaults["weight_decay"]:
            return False
        try:
            mine = subject.training(problem, weight_decay=0.0).path(subject.steps(STEPS))
            other = subject.reference_training(problem, weight_decay=0.0).path(subject.steps(STEPS))
        except NotTaken:
            return False
        return apart(mine[-1], other[-1], other[0]) <= ROUNDING

    def _narrow(self, subject: OptimizerSubject) -> Proof | None:
        """In float32 and bfloat16: how far from float64, beside the reference."""
        problem = PROBLEMS[0]
        exact = subject.reference_training(problem).path(subject.steps(STEPS))
        for dtype, shown in ((torch.float32, "float32"), (torch.bfloat16, "bfloat16")):
            try:
                other = apart(
                    subject.reference_training(problem, dtype).path(subject.steps(STEPS))[-1], exact[-1], exact[0]
                )
                mine = apart(subject.training(problem, dtype).path(subject.steps(STEPS))[-1], exact[-1], exact[0])
            except NotTaken:
                continue  # it refuses this type, by an error that the user sees
            limit = NARROW * max(other, 1e-6) if dtype == torch.float32 else 3 * max(other, 1e-2)
            if mine > limit:
                said = (
                    f"with {shown} weights it is {mine:.2g} from the float64 training; {subject.against} is {other:.2g}"
                )
                return self.fails(said, {shown: mine, "reference": other}, self.likely_first(WIDTH), subject.place)
        return None
