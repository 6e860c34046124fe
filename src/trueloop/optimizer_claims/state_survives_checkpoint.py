"""state-survives-checkpoint: a training that is saved and loaded in the middle ends with bit-identical weights.

The state is saved by `state_dict()` and `torch.save`, and loaded into a new optimizer over copies of the weights.
"""

import io
from typing import Any, ClassVar, Final, final

import torch
from torch.optim import Optimizer

from trueloop.optimizer_claims.optimizer_claim import OptimizerClaim
from trueloop.optimizer_claims.optimizer_subject import NotTaken, OptimizerSubject, Training, apart, snapshot
from trueloop.optimizer_claims.problem import NET, QUADRATIC, Problem
from trueloop.results.proof import Cause, Proof

__all__ = ["StateSurvivesCheckpoint"]

BEFORE, AFTER = 15, 15
BASE: Final = frozenset(("defaults", "state", "param_groups"))  # what state_dict covers, or the constructor sets

ATTRIBUTE = Cause("state in attributes of the optimizer", "keep it in self.state[p] or in the param group")
KEYED = Cause("state under a key that changes: id(p), an index", "use self.state[p], which state_dict translates")
OVERRIDE = Cause("state_dict or load_state_dict leave something out", "compare both dicts, entry by entry")
CAST = Cause("load_state_dict casts state to the dtype of the weights", "cast it back to float32 in your own")
RECREATED = Cause("the state is set up again after loading", "ask `if not self.state[p]`, not for the first step")


@final
class StateSurvivesCheckpoint(OptimizerClaim):
    name = "state-survives-checkpoint"
    healthy = "weights of a resumed run are bit-identical to those of a run that was not stopped"
    causes: ClassVar[tuple[Cause, ...]] = (ATTRIBUTE, KEYED, OVERRIDE, CAST, RECREATED)

    def _likely(self, attributes: list[str], dtype: torch.dtype) -> tuple[Cause, ...]:
        if dtype == torch.bfloat16:
            return self.likely_first(CAST)
        return self.likely_first(ATTRIBUTE) if attributes else (KEYED, OVERRIDE, RECREATED, ATTRIBUTE)

    def try_optimizer(self, subject: OptimizerSubject) -> Proof:
        for problem, dtype in ((QUADRATIC, torch.float32), (NET, torch.float32), (QUADRATIC, torch.bfloat16)):
            try:
                straight = subject.training(problem, dtype).run(1)
            except NotTaken:
                continue  # it refuses bfloat16, by an error that the user sees
            start = snapshot(straight.problem.parameters(dtype))
            straight.run(BEFORE - 1)
            attributes = _own_tensors(straight.optimizer)
            try:
                resumed = _resumed(subject, straight, problem, dtype)
                resumed.run(AFTER)
            except NotTaken as error:
                return self.fails(
                    f"after loading its own state_dict it raises {error}", {"error": str(error)}, place=subject.place
                )
            straight.run(AFTER)
            if not all(map(torch.equal, straight.parameters, resumed.parameters)):
                distance = apart(resumed.parameters, straight.parameters, start)
                lost = f"; these attributes are not in state_dict(): {', '.join(attributes)}" if attributes else ""
                return self.fails(
                    f"{AFTER} steps after loading, the weights are {distance:.2g} from those of the run that was not "
                    f"stopped, relative to the way gone{lost}",
                    {"apart": distance, "problem": problem.name, "dtype": str(dtype), "attributes": attributes},
                    self._likely(attributes, dtype),
                    subject.place,
                )
        return self.holds(f"bit-identical {AFTER} steps after loading", {"steps": BEFORE + AFTER})


def _resumed(subject: OptimizerSubject, straight: Training, problem: Problem, dtype: torch.dtype) -> Training:
    """Built with a different learning rate: the saved one counts."""
    changes: dict[str, Any] = {} if subject.lr is None else {"lr": subject.lr / 2}
    resumed = subject.training(problem, dtype, **changes)
    for into, value in zip(resumed.parameters, straight.parameters, strict=True):
        into.data.copy_(value.data)
    file = io.BytesIO()
    try:
        torch.save(straight.optimizer.state_dict(), file)
        file.seek(0)
        resumed.optimizer.load_state_dict(torch.load(file, weights_only=False))
    except (Exception, SystemExit) as error:
        raise NotTaken(error) from error
    resumed.taken = straight.taken
    return resumed


def _own_tensors(optimizer: Optimizer) -> list[str]:
    """Attributes that hold tensors, counters or per-parameter dicts."""

    def holds_state(value: Any) -> bool:
        if isinstance(value, dict):
            return bool(value) and any(isinstance(each, (torch.Tensor, dict, int, float)) for each in value.values())
        if isinstance(value, list):
            return any(isinstance(each, torch.Tensor) for each in value)
        return isinstance(value, torch.Tensor) or (isinstance(value, int) and not isinstance(value, bool))

    names = (name for name in vars(optimizer) if not name.startswith("_optimizer") and name not in BASE)
    return [
        name for name in names if "hook" not in name and "zero_grad" not in name and holds_state(vars(optimizer)[name])
    ]
