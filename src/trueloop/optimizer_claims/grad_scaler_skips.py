"""grad-scaler-skips: with a GradScaler, steps whose gradients overflow change nothing; the others are as without."""

from typing import ClassVar, Final, final

import torch

from trueloop.optimizer_claims.optimizer_claim import OptimizerClaim
from trueloop.optimizer_claims.optimizer_subject import NotTaken, OptimizerSubject, apart, snapshot
from trueloop.optimizer_claims.problem import SEPARABLE
from trueloop.results.proof import Cause, Proof

__all__ = ["GradScalerSkips"]

STEPS: Final = 6
OVERFLOWS: Final = 2  # the step whose gradients are Inf

FOUND = Cause(
    "it takes found_inf and grad_scale itself, and ignores one of them", "read both, or leave it to the scaler"
)
CLIPPED = Cause("Inf is replaced inside of step()", "nan_to_num and clamp hide an overflow from the scaler")


@final
class GradScalerSkips(OptimizerClaim):
    name = "grad-scaler-skips"
    healthy = "an overflow leaves the weights as they are, and the scale of the loss cancels"
    causes: ClassVar[tuple[Cause, ...]] = (FOUND, CLIPPED)

    def try_optimizer(self, subject: OptimizerSubject) -> Proof:
        if subject.needs_closure:
            return self.unproved("it needs a closure, which GradScaler does not support")
        scaled, plain = (subject.training(SEPARABLE, torch.float32) for _ in range(2))
        start, scaler = snapshot(plain.parameters), torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=1000)
        for step in range(STEPS):
            before = snapshot(scaled.parameters)
            scaled.optimizer.zero_grad()
            scaler.scale(scaled.problem.loss(scaled.parameters)).backward()  # type: ignore[no-untyped-call]
            if step == OVERFLOWS:
                gradient = scaled.parameters[0].grad
                assert gradient is not None
                gradient.view(-1)[0] = torch.inf
            scaled.taken = plain.taken
            scaled.seed()
            try:
                scaler.step(scaled.optimizer)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the user's optimizer raises
                return self.fails(f"scaler.step raises {NotTaken(error)}", {"step": step + 1}, place=subject.place)
            scaler.update()
            if step != OVERFLOWS:
                plain.step()
            elif not all(map(torch.equal, before, scaled.parameters)):
                said = "a step whose gradients overflowed changed the weights"
                return self.fails(said, {"step": step + 1}, place=subject.place)
        distance = apart(scaled.parameters, plain.parameters, start)
        if distance > 1e-4:
            said = f"with a scaled loss the weights are {distance:.2g} apart after {STEPS} steps"
            return self.fails(said, {"apart": distance}, place=subject.place)
        return self.holds("the overflow was skipped, the other steps are as without a scaler", {"apart": distance})
