"""nonsense-is-refused: a negative learning rate, betas above 1 and the like are an error in the constructor."""

from typing import Any, ClassVar, Final, final

from trueloop.optimizer_claims.optimizer_claim import OptimizerClaim
from trueloop.optimizer_claims.optimizer_subject import NotTaken, OptimizerSubject
from trueloop.optimizer_claims.problem import QUADRATIC
from trueloop.results.proof import Cause, Proof

__all__ = ["NonsenseIsRefused"]

NONSENSE: Final[dict[str, Any]] = {
    "lr": -1.0,
    "betas": (1.5, 0.999),
    "eps": -1.0,
    "weight_decay": -1.0,
    "momentum": -1.0,
}


@final
class NonsenseIsRefused(OptimizerClaim):
    name = "nonsense-is-refused"
    healthy = "the constructor raises an error for each of them"
    causes: ClassVar[tuple[Cause, ...]] = (
        Cause("__init__ does not check its arguments", '`if lr < 0: raise ValueError(f"Invalid learning rate: {lr}")`'),
    )

    def try_optimizer(self, subject: OptimizerSubject) -> Proof:
        asked = {name: value for name, value in NONSENSE.items() if subject.has(name)}
        asked = {name: value for name, value in asked.items() if _is_alike(value, subject.defaults[name])}
        if not asked:
            return self.unproved(f"it has none of the arguments {', '.join(NONSENSE)}")
        accepted = []
        for name, value in asked.items():
            try:
                subject.build(QUADRATIC.parameters(), **{name: value})
            except NotTaken:
                continue
            accepted.append(f"{name}={value}")
        if accepted:
            said = f"accepted without an error: {', '.join(accepted)}"
            return self.fails(said, {"accepted": accepted}, place=subject.place)
        return self.holds(f"refused: {', '.join(f'{name}={value}' for name, value in asked.items())}", {})


def _is_alike(value: Any, default: Any) -> bool:
    if isinstance(value, tuple):
        return isinstance(default, tuple | list) and len(default) == len(value)
    return isinstance(default, float | int) and not isinstance(default, bool)
