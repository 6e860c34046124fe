"""param-groups-apart: each param group has its own options, and splitting a group changes nothing.

Groups with lr 0 stay where they are, the other moves; parameters in two equal groups train as in one; a group that is
added later moves too.
"""

from typing import Any, ClassVar, Final, final

from torch import Tensor, nn

from trueloop.optimizer_claims.optimizer_claim import ROUNDING, OptimizerClaim
from trueloop.optimizer_claims.optimizer_subject import NotTaken, OptimizerSubject, Training, apart, moved, snapshot
from trueloop.optimizer_claims.problem import SEPARABLE
from trueloop.results.proof import Cause, Proof

__all__ = ["ParamGroupsApart"]

STEPS: Final = 20

FIRST_ONLY = Cause("only the first group is read", "loop over `for group in self.param_groups`")
ONCE = Cause("an option is read from self.defaults or from the first group", "read group['lr'] inside the loop")
ALIGNED = Cause("state is kept by position", "use self.state[p]")
LATER = Cause("state or options are set up in __init__ only", "set them up when a parameter is seen first")


@final
class ParamGroupsApart(OptimizerClaim):
    name = "param-groups-apart"
    healthy = "a group with lr=0 stays, the other moves, two equal groups train like one, an added group moves"
    causes: ClassVar[tuple[Cause, ...]] = (FIRST_ONLY, ONCE, ALIGNED, LATER)

    def try_optimizer(self, subject: OptimizerSubject) -> Proof:
        def training(groups: Any) -> Training:
            return subject.training(SEPARABLE, groups=groups)

        try:
            split = training(lambda given: [{"params": [each]} for each in given])
        except NotTaken as error:
            return self.unproved(f"it does not take several param groups ({error})")
        together = training(None)
        if split.optimizer.param_groups[0].get("lr") is not None:  # None: it finds the rate itself
            for still in (0, 1):
                if (proof := self._one_still(subject, training, still)) is not None:
                    return proof
        start = snapshot(split.parameters)
        distance = apart(split.run(STEPS).parameters, together.run(STEPS).parameters, start)
        if distance > ROUNDING:
            said = f"split into two groups with equal options, the weights are {distance:.2g} apart after {STEPS} steps"
            return self.fails(said, {"apart": distance}, place=subject.place)
        return (
            self._own_options(subject)
            or self._added(subject, training)
            or self.holds(
                f"two groups train like one ({distance:.1g} apart), and each has its own lr", {"apart": distance}
            )
        )

    def _own_options(self, subject: OptimizerSubject) -> Proof | None:
        """Each option, set in the group, must act like the same option given to the constructor."""
        for name, value in subject.defaults.items():
            if not subject.has(name) or isinstance(value, bool) or not isinstance(value, float | int):
                continue
            changed = value / 2 if value else 0.05
            try:
                distance = self._apart_by(subject, name, changed)
            except NotTaken:
                continue  # no value for this option
            if distance > ROUNDING:
                said = f"{name}={changed:g} in a param group trains unlike {name}={changed:g} of the constructor"
                said += f": {distance:.2g} apart after {STEPS} steps"
                return self.fails(said, {"option": name, "apart": distance}, self.likely_first(ONCE), subject.place)
        return None

    def _apart_by(self, subject: OptimizerSubject, name: str, value: float) -> float:
        changes: dict[str, Any] = {name: value}
        given = subject.training(SEPARABLE, **changes)
        if name not in given.optimizer.param_groups[0]:
            return 0.0  # it is not an option of groups
        plain = subject.training(SEPARABLE)
        if _state_at_start(given) != _state_at_start(plain) or _others(given, name) != _others(plain, name):
            return 0.0  # used up by the constructor: `initial_accumulator_value` of Adagrad, `d0` of Prodigy
        start = snapshot(given.parameters)
        in_group = subject.training(SEPARABLE, groups=lambda made: [{"params": made, **changes}])
        return apart(in_group.run(STEPS).parameters, given.run(STEPS).parameters, start)

    def _one_still(self, subject: OptimizerSubject, training: Any, still: int) -> Proof | None:
        def groups(given: list[nn.Parameter]) -> list[Any]:
            return [{"params": [each], **({"lr": 0.0} if number == still else {})} for number, each in enumerate(given)]

        try:
            made: Training = training(groups)
        except NotTaken:
            return None  # it refuses lr=0
        start = snapshot(made.parameters)
        made.run(STEPS)
        ways = [moved([one], [two]) for one, two in zip(start[:2], made.parameters[:2], strict=True)]
        evidence = {"group_with_lr_0": still, "moved": ways}
        if ways[still] and ways[still] > 1e-3 * ways[1 - still]:
            said = f"group {still} has lr=0 and moved by {ways[still]:.3g}; the other by {ways[1 - still]:.3g}"
            return self.fails(said, evidence, self.likely_first(ONCE), subject.place)
        if not ways[1 - still]:
            said = f"group {1 - still} did not move in {STEPS} steps, while group {still} has lr=0"
            return self.fails(said, evidence, self.likely_first(FIRST_ONLY if still == 0 else ONCE), subject.place)
        return None

    def _added(self, subject: OptimizerSubject, training: Any) -> Proof | None:
        made: Training = training(lambda given: given[:1])
        start = snapshot(made.parameters)
        made.run(3)
        try:
            made.optimizer.add_param_group({"params": [made.parameters[1]]})
        except Exception:  # noqa: BLE001 - whatever it raises: it refuses later groups, and the user sees the error
            return None
        try:
            made.run(STEPS)
        except NotTaken as error:
            said = f"it fails in the first steps after add_param_group ({error})"
            return self.fails(said, {"error": str(error)}, self.likely_first(LATER), subject.place)
        way = moved(start[1:], made.parameters[1:])
        if way:
            return None
        said = f"a group that add_param_group added after 3 steps did not move in {STEPS} steps"
        return self.fails(said, {"moved": way}, self.likely_first(LATER), subject.place)


def _others(made: Training, name: str) -> str:
    """The other options of its group. As text, because tensors compare element by element."""
    return str({key: value for key, value in made.optimizer.param_groups[0].items() if key not in ("params", name)})


def _state_at_start(made: Training) -> list[Any]:
    """What the constructor put into the state of each parameter."""
    states = (made.optimizer.state.get(parameter, {}) for parameter in made.parameters)
    return [
        {key: value.tolist() if isinstance(value, Tensor) else value for key, value in each.items()} for each in states
    ]
