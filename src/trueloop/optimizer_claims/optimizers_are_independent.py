"""optimizers-are-independent: another optimizer of the same class, at the same time, changes nothing; runs repeat."""

from inspect import Parameter
from typing import Any, ClassVar, Final, final

import torch
from torch.optim import Optimizer

from trueloop.measure.randomness import fence
from trueloop.optimizer_claims.optimizer_claim import OptimizerClaim
from trueloop.optimizer_claims.optimizer_subject import (
    NotTaken,
    OptimizerSubject,
    Training,
    apart,
    arguments_of,
    snapshot,
)
from trueloop.optimizer_claims.problem import NET, QUADRATIC
from trueloop.results.proof import Cause, Proof

__all__ = ["OptimizersAreIndependent"]

STEPS: Final = 10
EMPTY: Final = Parameter.empty

CLASS = Cause("state in an attribute of the class, or in a module's global", "set it in __init__, or use self.state[p]")
DEFAULT = Cause("a mutable default argument that is written", "copy it in __init__")
RANDOM = Cause("it draws from a generator that no seed controls", "draw from torch's own generator")


@final
class OptimizersAreIndependent(OptimizerClaim):
    name = "optimizers-are-independent"
    healthy = "bit-identical weights when it runs again, and when another optimizer runs between its steps"
    causes: ClassVar[tuple[Cause, ...]] = (CLASS, DEFAULT, RANDOM)

    def try_optimizer(self, subject: OptimizerSubject) -> Proof:
        with fence(7):
            alone = subject.training(NET)
            start = snapshot(alone.parameters)
            alone.run(STEPS)
        with fence(7):
            again = subject.training(NET).run(STEPS)
        if not all(map(torch.equal, alone.parameters, again.parameters)):
            distance = apart(again.parameters, alone.parameters, start)
            said = f"a second run with the same seed is {distance:.2g} from the first, relative to the way gone"
            return self.fails(said, {"apart": distance}, place=subject.place)
        with fence(7):
            beside = subject.training(NET)
            changes: dict[str, Any] = {} if subject.lr is None else {"lr": subject.lr / 2}
            other = subject.training(QUADRATIC, **changes)
            for _ in range(STEPS):
                beside.step()
                try:
                    with fence():
                        other.step()
                except NotTaken as error:
                    said = f"two optimizers at once: the second raises {error}"
                    return self.fails(said, {"error": str(error)}, self.likely_first(CLASS), subject.place)
        if not all(map(torch.equal, alone.parameters, beside.parameters)):
            distance = apart(beside.parameters, alone.parameters, start)
            said = f"with another optimizer of its class between the steps, the weights are {distance:.2g} apart"
            return self.fails(said, {"apart": distance}, self.likely_first(CLASS, DEFAULT), subject.place)
        held = self.holds(f"bit-identical in {STEPS} steps, alone and beside another", {"steps": STEPS})
        return self._defaults(subject) or self._draws(subject) or held

    def _defaults(self, subject: OptimizerSubject) -> Proof | None:
        """One that is built with other options must not change what the next one has by default."""
        fitting = subject.fitting(QUADRATIC)
        arguments = arguments_of(subject.make)
        required = {name: value for name, value in subject.options.items() if arguments.get(name) is EMPTY}
        numbers = [name for name, value in subject.defaults.items() if type(value) is float and subject.has(name)]
        halved: dict[str, Any] = {name: subject.defaults[name] / 2 for name in numbers}
        try:
            before = _options(subject.make(fitting.parameters(), **required))
            subject.training(QUADRATIC, **halved)
            after = _options(subject.make(fitting.parameters(), **required))
        except Exception:  # noqa: BLE001 - some refuse to be built without their options; nothing is to be learned then
            return None
        if before == after:
            return None
        changed = sorted(name for name in before if before[name] != after.get(name))
        said = f"building one with its options changed the defaults of the next: {', '.join(changed)}"
        return self.fails(said, {"options": changed}, self.likely_first(DEFAULT), subject.place)

    def _draws(self, subject: OptimizerSubject) -> Proof | None:
        """Numbers that it draws are missing elsewhere: dropout and shuffling change."""
        if subject.reference is None or not _draws_in_step(subject.training(NET)):
            return None
        if _draws_in_step(subject.reference_training(NET)):
            return None
        said = (
            f"a step draws from torch's own generator, which {subject.against} does not: dropout and shuffling change"
        )
        return self.fails(said, {}, self.likely_first(RANDOM), subject.place)


def _options(optimizer: Optimizer) -> dict[str, object]:
    return {name: value for name, value in optimizer.param_groups[0].items() if name != "params"}


def _draws_in_step(training: Training) -> bool:
    training.gradients()
    with fence(7):
        before = torch.get_rng_state()
        if training.closure:
            training.optimizer.step(training.gradients)  # type: ignore[arg-type]  # torch's stub
        else:
            training.optimizer.step()  # a `step(self)` without a closure is common
        return not torch.equal(before, torch.get_rng_state())
