"""How a run began and how it ended."""

from dataclasses import dataclass
from typing import Literal

from trueloop.event.base import Event

__all__ = ["RunEnded", "RunStarted"]


@dataclass(frozen=True, slots=True)
class RunStarted(Event):
    script: str
    arguments: tuple[str, ...]
    python: str
    torch: str
    rank: int
    world_size: int


@dataclass(frozen=True, slots=True)
class RunEnded(Event):
    reason: Literal["finished", "cut", "exception", "interrupted", "exit", "hung"]
    epochs: int  # passes over loaders that were started
    forwards: int
    unwatched_steps: int  # steps without observers, to stay inside the overhead budget
