"""States that are taken, kept, written and read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trueloop.event.base import Event, Place

__all__ = ["StateReused"]


@dataclass(frozen=True, slots=True)
class StateReused(Event):
    """A state_dict that was kept, and used when the weights it shares had moved on. `place` is where it was taken."""

    use: Literal["load", "save"]
    use_place: Place | None
    taken_step: int
    shared: int
    tensors: int
