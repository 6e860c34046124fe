"""What a observer is."""

from __future__ import annotations

from abc import ABC
from typing import ClassVar

from trueloop.event import Event
from trueloop.observers.roster import Roster
from trueloop.taps.bus import Bus

__all__ = ["Observer"]


class Observer(ABC):
    """Hears moments by having methods named after them (`backward_started`), and emits events through the bus.

    It draws no random number, keeps no tensor alive, leaves no trace in the user's objects, and computes under no_grad.
    Whatever it raises retires it, never the run. A costly fact is computed on deep steps (`bus.deep`), or on a few
    chosen ones.
    """

    emits: ClassVar[tuple[type[Event], ...]]
    safe_on_shards: ClassVar[bool] = False
    """It reads no number of a weight, a gradient or an output. Where those lie in pieces on several ranks, reading one
    is a collective, which waits until every rank reads it too: only such observers are kept then."""

    def __init__(self, bus: Bus, roster: Roster) -> None:
        self.bus = bus
        self.roster = roster
