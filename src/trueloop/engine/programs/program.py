"""The seam between the loop and the execution of a step: eager, CUDA graphs, or one compiled function."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from torch import Tensor

from trueloop.data.source import Batch
from trueloop.engine.batches import Window
from trueloop.engine.parts import Parts
from trueloop.engine.state import State

if TYPE_CHECKING:
    from trueloop.engine.loop import Loop

__all__ = ["Program"]


class Program(ABC):
    """Executes the steps of a run. One whose `replays` is True also replays several steps at once."""

    parts: Parts
    state: State
    replays: bool = False

    def attach(self, loop: Loop) -> None:
        """The run that this program executes: the user's own step gets it."""

    def prepare(self) -> None:
        """Before the first step: compile or record, and check the result. Raises BadRecipe. The run stays the same."""

    def windows(self, next_look: Callable[[], int]) -> Iterator[Window]:
        """What the loop trains on, without end. `next_look`: the next step that an observer wants to see."""
        return self.parts.batches.windows(self.state)

    @abstractmethod
    def backward(self, micro: Batch, divisor: int | float | Tensor, *, observed: bool = False) -> Tensor:
        """Add the gradients of a micro-batch; its loss, detached. `observed`: hooks on the model's layers must run."""

    def steps_itself(self, window: Window) -> bool:
        """Does the program take this window's optimizer steps itself, instead of the loop?"""
        return window.is_replay

    def take(self, window: Window) -> tuple[Tensor, bool, bool]:
        """Take them: the last gradient norm; whether weights were updated; whether fp16 only sought its scale."""
        # Programs whose `steps_itself` is always false leave it so; the loop asks that first.
        raise NotImplementedError(f"{type(self).__name__} takes no steps itself.")
