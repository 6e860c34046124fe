"""The counters of a run, which a checkpoint carries."""

from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["State"]


@dataclass(slots=True)
class State:
    """Everything that is counted: with weights, optimizer and random states, all that a run depends on."""

    step: int = 0  # Batches that have been learned from, skipped ones included
    epoch: int = 0
    batch: int = 0  # The next batch of this epoch
    clock: int = 0  # What the schedule counts: steps that the fp16 scaler did not refuse
    skipped: int = 0  # Steps skipped because a loss or a gradient was non-finite
    rollbacks: int = 0
    avoided: list[tuple[int, int]] = field(default_factory=list)  # (epoch, batch) to skip: rolled back for
    best: float | None = None
    best_step: int | None = None
    worse: int = 0  # Evaluations since the best one
    plateau_factor: float = 1.0  # What the plateau schedule has come down to
    plateau_worse: int = 0
    over: bool = False  # Early stopping, or the user's own code, ends the run
    ended_by: str = ""  # Why the user's own code does
    evaluation_due: bool = False  # A signal interrupted the evaluation of this step: a resume begins with it

    def advance(self, ends_epoch: bool, steps: int = 1) -> None:
        self.step += steps
        self.epoch, self.batch = (self.epoch + 1, 0) if ends_epoch else (self.epoch, self.batch + steps)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def restore(self, values: dict[str, Any]) -> None:
        """In place: others hold this very object."""
        for name, value in values.items():
            setattr(self, name, value)
        self.avoided = [(epoch, batch) for epoch, batch in self.avoided]
