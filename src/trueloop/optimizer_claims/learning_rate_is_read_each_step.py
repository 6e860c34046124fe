"""learning-rate-is-read-each-step: a scheduler that changes a group's lr changes the training.

An optimizer built with one learning rate and set to another before its first step must train like one that was built
with the other.
"""

from typing import ClassVar, Final, final

from trueloop.optimizer_claims.optimizer_claim import ROUNDING, OptimizerClaim
from trueloop.optimizer_claims.optimizer_subject import NotTaken, OptimizerSubject, apart, moved, snapshot
from trueloop.optimizer_claims.problem import QUADRATIC
from trueloop.results.proof import Cause, Proof

__all__ = ["LearningRateIsReadEachStep"]

STEPS: Final = 10

CONSTRUCTOR = Cause("lr is kept in an attribute, or read from self.defaults", "read group['lr'] in step()")
CACHED = Cause("values computed from lr are kept from the first step", "compute them in each step")


@final
class LearningRateIsReadEachStep(OptimizerClaim):
    name = "learning-rate-is-read-each-step"
    healthy = "a learning rate that is set in param_groups trains like one given to the constructor"
    causes: ClassVar[tuple[Cause, ...]] = (CONSTRUCTOR, CACHED)

    def try_optimizer(self, subject: OptimizerSubject) -> Proof:
        if not subject.has("lr") or not isinstance(subject.defaults["lr"], float | int):
            return self.unproved("it has no argument lr")
        full = float(subject.defaults["lr"])
        half = subject.training(QUADRATIC, lr=full / 2)
        set_later = subject.training(QUADRATIC)
        if "lr" not in set_later.optimizer.param_groups[0]:
            said = "its param groups have no lr, so that no scheduler can change it"
            return self.fails(said, {"group": sorted(set_later.optimizer.param_groups[0])}, place=subject.place)
        for group in set_later.optimizer.param_groups:
            group["lr"] = full / 2
        start = snapshot(half.parameters)
        distance = apart(set_later.run(STEPS).parameters, half.run(STEPS).parameters, start)
        if distance > ROUNDING:
            said = (
                f"with lr set from {full:g} to {full / 2:g} before the first step, the weights are {distance:.2g} from"
            )
            return self.fails(
                f"{said} those of an optimizer that was built with {full / 2:g}",
                {"apart": distance},
                place=subject.place,
            )
        return self._during(subject, full) or self.holds(
            f"lr={full / 2:g} acts however it is set ({distance:.1g} apart)", {"apart": distance}
        )

    def _during(self, subject: OptimizerSubject, full: float) -> Proof | None:
        """Set to zero after some steps: the weights must stop. Some optimizers refuse a rate of zero."""
        training = subject.training(QUADRATIC).run(STEPS)
        for group in training.optimizer.param_groups:
            group["lr"] = 0.0
        before = snapshot(training.parameters)
        try:
            training.step()
        except NotTaken:
            return None
        way = moved(before, training.parameters)
        if not way:
            return None
        said = (
            f"after {STEPS} steps lr was set from {full:g} to 0, and the next step still moved the weights by {way:.3g}"
        )
        if subject.reference is None:
            return self.unproved(f"{said}: Rprop and ASGD do so on purpose", {"moved": way})
        other = subject.reference_training(QUADRATIC).run(STEPS)
        for group in other.optimizer.param_groups:
            group["lr"] = 0.0
        before = snapshot(other.parameters)
        other.step()
        if moved(before, other.parameters) > 0.1 * way:
            return None
        return self.fails(said, {"moved": way}, self.likely_first(CACHED), subject.place)
