"""zero-gradients-are-finite: gradients of zero give finite weights, and those of the reference."""

from collections.abc import Callable, Sequence
from typing import ClassVar, Final, final

import torch
from torch import nn

from trueloop.optimizer_claims.optimizer_claim import ROUNDING, OptimizerClaim
from trueloop.optimizer_claims.optimizer_subject import OptimizerSubject, apart, snapshot
from trueloop.optimizer_claims.problem import SEPARABLE
from trueloop.results.proof import Cause, Proof

__all__ = ["ZeroGradientsAreFinite"]

STEPS: Final = 10

DIVIDED = Cause("0 / 0: no eps in the denominator", "add eps outside of the square root")
SKIPPED = Cause("parameters with a zero gradient are skipped, and momentum with them", "skip only where p.grad is None")


@final
class ZeroGradientsAreFinite(OptimizerClaim):
    name = "zero-gradients-are-finite"
    healthy = "weights stay finite where gradients are zero, and are those of the reference where there is one"
    causes: ClassVar[tuple[Cause, ...]] = (DIVIDED, SKIPPED)

    def try_optimizer(self, subject: OptimizerSubject) -> Proof:
        for shown, is_zero in (
            ("from the first step on", lambda _: True),
            ("in every second step", lambda step: step % 2),
        ):
            training = subject.training(SEPARABLE, edit=_zeroed(is_zero))
            start = snapshot(training.parameters)
            training.run(STEPS)
            if not all(torch.isfinite(each).all() for each in training.parameters):
                said = f"gradients of zero {shown} give weights with NaN or Inf"
                return self.fails(said, {"zero": shown}, self.likely_first(DIVIDED), subject.place)
            if subject.reference is None:
                continue
            other = subject.reference_training(SEPARABLE, edit=_zeroed(is_zero))
            plain = apart(
                subject.training(SEPARABLE).run(STEPS).parameters,
                subject.reference_training(SEPARABLE).run(STEPS).parameters,
                start,
            )
            distance = apart(training.parameters, other.run(STEPS).parameters, start)
            if distance > ROUNDING and plain <= ROUNDING:
                said = f"with gradients of zero {shown} the weights are {distance:.2g} from those of {subject.against}"
                return self.fails(said, {"apart": distance}, self.likely_first(SKIPPED), subject.place)
        return self.holds(f"finite in {STEPS} steps with gradients of zero", {"steps": STEPS})


def _zeroed(is_zero: Callable[[int], object]) -> Callable[[int, Sequence[nn.Parameter]], None]:
    def edit(step: int, parameters: Sequence[nn.Parameter]) -> None:
        for each in parameters if is_zero(step) else ():
            if each.grad is not None:
                each.grad.zero_()

    return edit
