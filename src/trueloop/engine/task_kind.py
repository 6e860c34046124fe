"""What a task is: the seam between a loss, built in or of your own, and everything that computes one."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from trueloop.data.source import Batch
from trueloop.engine.state import State

__all__ = ["LossState", "LossSum", "Task"]


@dataclass(frozen=True, slots=True)
class LossState:
    """Where the run stands, for a loss that takes it: `loss(output, batch, state)`."""

    step: int  # Optimizer steps taken so far: 0 in the first
    epoch: int
    total_steps: int
    training: bool  # False: an evaluation, or another computation without gradients


@dataclass(frozen=True, slots=True)
class LossSum:
    """The loss of a batch, added up over the targets that count."""

    total: Tensor
    count: int | float | Tensor | None = None  # The loss's own divisor; None: that of `Task.count_of`
    parts: Mapping[str, Tensor] = field(default_factory=dict)  # Named parts of the total, detached: sums too


class Task(ABC):
    """One kind of question."""

    metric: str  # What chooses the best checkpoint
    higher_is_better: bool
    sums: tuple[str, ...] = ()  # Names of what `measures` gives
    own_form = False  # May its loss have a divisor or parts of its own?
    takes_state = False  # Does it read where the run stands?

    @abstractmethod
    def loss_sum(self, output: Any, targets: Any) -> Tensor:
        """The loss added up over the targets that count."""

    @abstractmethod
    def count(self, targets: Any) -> int | Tensor:
        """How many targets count; a tensor where that must be looked up, so that the host need not wait."""

    def loss(self, output: Any, batch: Batch, state: LossState | None = None) -> LossSum:
        """The loss of a batch. `state`: where the run stands; None: where it stands now."""
        return LossSum(self.loss_sum(output, batch.targets))

    def count_of(self, batch: Batch) -> int | Tensor:
        """How many targets of a batch count, as far as that is known before the forward."""
        return self.count(batch.targets)

    def loss_and_count(self, output: Any, batch: Batch) -> tuple[LossSum, int | float | Tensor]:
        """The loss of a batch, and its divisor."""
        found = self.loss(output, batch)
        return found, self.count_of(batch) if found.count is None else found.count

    def mean_loss(self, output: Any, batch: Batch) -> Tensor:
        found, count = self.loss_and_count(output, batch)
        return found.total / count

    def follow(self, state: State, total_steps: int) -> None:
        """The counters of the run that this task belongs to."""

    @abstractmethod
    def measures(self, output: Any, targets: Any) -> dict[str, Tensor]:
        """Sums over the targets that count, for metrics besides the loss."""

    def metrics(self, totals: Mapping[str, float]) -> dict[str, float]:
        """Metrics from sums over all samples (`loss`, `count`, those of `measures`): means unless overridden."""
        return {name: total / totals["count"] for name, total in totals.items() if name != "count"}

    @abstractmethod
    def check(self, output: Any, targets: Any, at: str) -> None:
        """Raises BadData with a fix if the targets do not fit the task or the output."""

    def check_batch(self, output: Any, batch: Batch, at: str) -> None:
        """The same for a batch."""
        self.check(output, batch.targets, at)

    def check_all(self, targets: Tensor, output: Any, at: str) -> None:
        """The same for the targets of a whole data set, of which `output` answers a few."""
