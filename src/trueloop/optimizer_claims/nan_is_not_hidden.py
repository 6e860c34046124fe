"""nan-is-not-hidden: gradients with NaN reach the weights, as with the reference, so that somebody sees them."""

from collections.abc import Sequence
from typing import ClassVar, final

import torch
from torch import nn

from trueloop.optimizer_claims.optimizer_claim import OptimizerClaim
from trueloop.optimizer_claims.optimizer_subject import NotTaken, OptimizerSubject, Training
from trueloop.optimizer_claims.problem import QUADRATIC
from trueloop.results.proof import Cause, Proof

__all__ = ["NanIsNotHidden"]


@final
class NanIsNotHidden(OptimizerClaim):
    name = "nan-is-not-hidden"
    healthy = "weights are NaN after a gradient with NaN, as those of the reference are, or the step is an error"
    needs_reference = True
    causes: ClassVar[tuple[Cause, ...]] = (
        Cause("nan_to_num, clamp or a comparison in step()", "leave it to the loop, or to a GradScaler"),
    )

    def try_optimizer(self, subject: OptimizerSubject) -> Proof:
        if not _is_nan(subject.reference_training(QUADRATIC, edit=_poison)):
            return self.unproved(f"{subject.against} does not pass NaN on either")
        try:
            passed = _is_nan(subject.training(QUADRATIC, edit=_poison))
        except NotTaken as error:
            return self.holds(f"it raises {error}", {})
        if passed:
            return self.holds("NaN in a gradient is NaN in the weights", {})
        said = f"a gradient with NaN leaves finite weights, those of {subject.against} are NaN: nobody sees it"
        return self.fails(said, {}, place=subject.place)


def _poison(_: int, parameters: Sequence[nn.Parameter]) -> None:
    for each in parameters:
        if each.grad is not None:
            each.grad.fill_(torch.nan)


def _is_nan(training: Training) -> bool:
    training.step()
    return any(bool(each.isnan().any()) for each in training.parameters)
