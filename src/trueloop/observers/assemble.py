"""The observers whose events somebody reads. The folder is the registry: every file in it that holds a observer is one."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from pathlib import Path

from trueloop.event import Event
from trueloop.observers.observer import Observer
from trueloop.observers.roster import Roster
from trueloop.taps.bus import Bus

__all__ = ["all_observers", "assemble"]


@lru_cache(maxsize=1)
def all_observers() -> tuple[type[Observer], ...]:
    here = Path(__file__).parent
    names = sorted(
        file.stem for file in here.glob("*.py") if file.stem not in ("__init__", "observer", "roster", "assemble")
    )
    modules = [import_module(f"trueloop.observers.{name}") for name in names]
    return tuple(
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Observer) and value.__module__ == module.__name__
    )


def assemble(bus: Bus, wanted: frozenset[type[Event]]) -> None:
    """Connect the roster, and each observer that emits something wanted, to the bus."""
    roster = Roster(bus)
    observers = [observer(bus, roster) for observer in all_observers() if wanted & set(observer.emits)]
    bus.subscribe([roster, *observers])
