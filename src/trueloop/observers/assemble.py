"""The observers whose events some rule reads. The folder is the registry: every observer in it counts."""

from functools import lru_cache
from importlib import import_module
from pathlib import Path

from trueloop.event import Event
from trueloop.observers.observer import Observer
from trueloop.observers.run_objects import RunObjects
from trueloop.taps.bus import Bus

__all__ = ["all_observers", "assemble"]


@lru_cache(maxsize=1)
def all_observers() -> tuple[type[Observer], ...]:
    names = sorted(file.stem for file in Path(__file__).parent.glob("[a-z]*.py"))
    modules = [import_module(f"trueloop.observers.{name}") for name in names]
    return tuple(
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__ == module.__name__ and issubclass(value, Observer)
        if value is not Observer
    )


def assemble(bus: Bus, wanted: frozenset[type[Event]]) -> None:
    """Subscribe the run's objects, and each observer that emits something wanted, to the bus."""
    objects = RunObjects(bus)
    observers = [observer(bus, objects) for observer in all_observers() if wanted & set(observer.emits)]
    bus.subscribe([objects, *observers])
