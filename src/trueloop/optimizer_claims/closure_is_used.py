"""closure-is-used: `step(closure)` computes the closure, returns its loss, and takes the same step."""

import inspect
from typing import ClassVar, Final, final

import torch
from torch import Tensor

from trueloop.optimizer_claims.optimizer_claim import ROUNDING, OptimizerClaim
from trueloop.optimizer_claims.optimizer_subject import NotTaken, OptimizerSubject, apart, snapshot
from trueloop.optimizer_claims.problem import QUADRATIC
from trueloop.results.proof import Cause, Proof

__all__ = ["ClosureIsUsed"]

STEPS: Final = 10

IGNORED = Cause("step() does not call its closure", "`with torch.enable_grad(): loss = closure()` before the update")
LATE = Cause("the closure is called after the update, or twice", "call it once, before the gradients are read")
DISABLED = Cause("the closure is called under torch.no_grad()", "call it inside `with torch.enable_grad():`")
NOTHING = Cause("the loss is not returned", "`return loss` at the end of step()")


@final
class ClosureIsUsed(OptimizerClaim):
    name = "closure-is-used"
    healthy = "step(closure) calls it with gradients enabled, returns its loss and trains like step()"
    causes: ClassVar[tuple[Cause, ...]] = (IGNORED, NOTHING, DISABLED, LATE)

    def try_optimizer(self, subject: OptimizerSubject) -> Proof:
        given, plain = subject.training(QUADRATIC), subject.training(QUADRATIC)
        if not inspect.signature(given.optimizer.step).parameters:
            return self.unproved("step() takes no closure: frameworks that pass one (Lightning) stop with an error")
        start, calls = snapshot(given.parameters), 0
        loss: Tensor | None = None

        def closure() -> Tensor:
            nonlocal calls, loss
            calls += 1
            if not torch.is_grad_enabled():
                raise _WithoutGradients
            loss = given.gradients()
            return loss

        if subject.needs_closure:
            given.gradients()
        for step in range(STEPS):
            before, given.taken = calls, step
            given.seed()
            try:
                returned: object = given.optimizer.step(closure)  # type: ignore[arg-type]  # torch's stub
            except _WithoutGradients:
                said = "step(closure) calls the closure with gradients disabled: its backward() fails"
                return self.fails(said, {"step": step + 1}, self.likely_first(DISABLED), subject.place)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the user's optimizer raises
                return self.fails(f"step(closure) raises {NotTaken(error)}", {"step": step + 1}, place=subject.place)
            if calls == before:
                said = "step(closure) does not call the closure"
                return self.fails(said, {"calls": calls}, self.likely_first(IGNORED), subject.place)
            if returned is None:
                said = "step(closure) returns None, not the loss"
                return self.fails(said, {"calls": calls}, self.likely_first(NOTHING), subject.place)
        if subject.needs_closure:
            return self.holds(f"it needs a closure and calls it {calls / STEPS:g} times a step", {"calls": calls})
        if calls > STEPS:
            said = f"step(closure) calls the closure {calls / STEPS:g} times a step, and takes a step without one too"
            return self.fails(said, {"calls": calls}, self.likely_first(LATE), subject.place)
        distance = apart(given.parameters, plain.run(STEPS).parameters, start)
        if distance > ROUNDING:
            said = f"with a closure ({calls / STEPS:g} calls a step) the weights are {distance:.2g} apart after {STEPS}"
            return self.fails(
                f"{said} steps", {"apart": distance, "calls": calls}, self.likely_first(LATE), subject.place
            )
        return self.holds(
            f"called {calls / STEPS:g} times a step, and the steps are those without it", {"calls": calls}
        )


class _WithoutGradients(Exception):
    """The closure was called under no_grad."""
