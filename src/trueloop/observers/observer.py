"""The base class of all observers."""

from collections.abc import Callable
from typing import ClassVar, Concatenate, ParamSpec, final

from trueloop.event import Event, Place
from trueloop.observers.run_objects import RunObjects
from trueloop.taps.bus import Bus

__all__ = ["Observer"]

P = ParamSpec("P")


class Observer:
    """Subscribes to topics by having methods named after them (`backward_started`), and emits events through the bus.

    It draws no random number, keeps no tensor alive, changes no object of the user, and computes under no_grad. If it
    raises, it is removed; the run continues. A costly fact is computed on deep steps (`bus.deep`), or on a few others.
    """

    emits: ClassVar[tuple[type[Event], ...]]
    safe_on_shards: ClassVar[bool] = False
    """It reads no value of a weight, a gradient or an output. Where those are sharded over ranks, reading one is a
    collective that waits for every rank: only such observers run then."""

    rarely: ClassVar[tuple[str, ...]] = ()
    """Topics that it needs only on deep steps and while operations are recorded: its methods return at once on others,
    so that they need not be called."""

    @final
    def __init__(self, bus: Bus, objects: RunObjects) -> None:
        self.bus = bus
        self.objects = objects
        self.prepare()

    def prepare(self) -> None:
        """Set up what the observer remembers."""

    @final
    def emit(
        self,
        kind: Callable[Concatenate[int, Place | None, P], Event],
        place: Place | None,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        """Emit an event of this kind, at the current step."""
        self.bus.emit(kind(self.bus.step, place, *args, **kwargs))
