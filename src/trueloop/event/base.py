"""What every event has, and what a place is."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Event", "Place"]


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the user's."""

    path: str
    line: int
    function: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """What every event has."""

    step: int
    """Optimizer steps taken so far, all optimizers counted."""
    place: Place | None
    """The user's line that made it happen; None where there is none (the end of a run)."""
