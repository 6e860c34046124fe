"""Fields that every event has, and a line of the user's source."""

from dataclasses import dataclass

__all__ = ["Event", "Place"]


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the user's code."""

    path: str
    line: int
    function: str = ""

    def __hash__(self) -> int:
        """Cheap: observers look up lines some thirty times in every step, and few places have the same number."""
        return self.line


@dataclass(frozen=True, slots=True)
class Event:
    step: int  # optimizer steps taken so far, over all optimizers
    place: Place | None  # the user's line that caused it; None where there is none (the end of a run)
