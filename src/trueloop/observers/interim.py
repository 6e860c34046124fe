"""What the observers would report if the run ended now: copies of them hear of the end, and the run continues.

Most rules decide at the end of a run. In a notebook a run has no end, only a next cell.
"""

import copy
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch

from trueloop.event import Event
from trueloop.observers.observer import Observer
from trueloop.taps.bus import Bus
from trueloop.taps.calls import RunEnd

__all__ = ["publish_end_to_copies"]

OWN: Final = ("trueloop.observers.", "trueloop.measure.")
"""Objects of these modules are what an observer remembers. Everything else (tensors, modules, events) is shared."""


def publish_end_to_copies(bus: Bus, end: RunEnd, emit: Callable[[Event], None]) -> list[str]:
    """Emit the events of the end. Returns the tracebacks of copies that failed; the observers themselves stay."""
    failures: list[str] = []
    apart = copy.copy(bus)
    apart.emit = emit
    busy, grad = bus.busy, torch.is_grad_enabled()
    bus.busy = True  # what the copies compute is not a part of the run
    torch.set_grad_enabled(False)
    try:
        for observer, _ in bus.subscribers("run_ended"):
            assert isinstance(observer, Observer)
            try:
                _copy_of(observer, apart).run_ended(end)
            except Exception:  # noqa: BLE001 - watching never breaks the run
                failures.append(f"the interim report of {type(observer).__name__} failed:\n{traceback.format_exc()}")
    finally:
        torch.set_grad_enabled(grad)
        bus.busy = busy
    return failures


def _copy_of(observer: Observer, bus: Bus) -> Any:
    known = {id(observer.bus): bus, id(observer.objects): observer.objects}
    return _copied(observer, known)


def _copied(value: Any, known: dict[int, Any]) -> Any:
    """A copy as deep as the memory of an observer; other objects are shared. `known`: copies by the original's id."""
    made: Any
    if id(value) in known:
        return known[id(value)]
    match value:
        case dict():
            made = known[id(value)] = copy.copy(value)  # keeps the kind: Counter, defaultdict
            for key in made:
                made[key] = _copied(made[key], known)
        case list() | deque():
            made = known[id(value)] = copy.copy(value)
            for index, item in enumerate(value):
                made[index] = _copied(item, known)
        case set():
            made = copy.copy(value)
        case tuple() if type(value) is tuple:
            made = tuple(_copied(item, known) for item in value)
        case _ if type(value).__module__.startswith(OWN):
            made = known[id(value)] = copy.copy(value)
            for name in _attributes(value):
                object.__setattr__(made, name, _copied(getattr(value, name), known))
        case _:
            made = value
    return made


def _attributes(value: object) -> Iterator[str]:
    slots = (name for cls in type(value).__mro__ for name in getattr(cls, "__slots__", ()))
    names = dict.fromkeys((*getattr(value, "__dict__", ()), *slots))
    return (name for name in names if name != "__weakref__" and hasattr(value, name))
