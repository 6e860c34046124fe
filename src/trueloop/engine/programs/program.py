"""The seam between the loop and the execution of a step: eager, CUDA graphs, or one compiled function."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

from torch import Tensor

from trueloop.data.source import Batch
from trueloop.engine.batches import Window
from trueloop.engine.parts import Parts
from trueloop.engine.state import State

__all__ = ["Program"]


class Program(ABC):
    """Executes the steps of a run. One whose `replays` is True also replays several steps at once."""

    parts: Parts
    state: State
    replays: bool = False

    def prepare(self) -> None:
        """Before the first step: compile or record, and check the result. Raises BadRecipe. The run stays the same."""

    def windows(self, next_look: Callable[[], int]) -> Iterator[Window]:
        """What the loop trains on, without end. `next_look`: the next step that an observer wants to see."""
        return self.parts.batches.windows(self.state)

    @abstractmethod
    def backward(self, micro: Batch, divisor: int | float | Tensor, *, observed: bool = False) -> Tensor:
        """Add the gradients of a micro-batch; its loss, detached. `observed`: hooks on the model's layers must run."""

    def replay(self, window: Window) -> Tensor:
        """The optimizer steps of a window whose `is_replay` is True; the gradient norm of the last one."""
        raise NotImplementedError(f"{type(self).__name__} replays no steps.")
