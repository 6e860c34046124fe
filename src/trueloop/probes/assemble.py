"""The probes whose events somebody reads. The folder is the registry: every file in it that holds a probe is one."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from pathlib import Path

from trueloop.event import Event
from trueloop.probes.probe import Probe
from trueloop.probes.roster import Roster
from trueloop.taps.wire import Wire

__all__ = ["all_probes", "assemble"]


@lru_cache(maxsize=1)
def all_probes() -> tuple[type[Probe], ...]:
    here = Path(__file__).parent
    names = sorted(file.stem for file in here.glob("*.py") if file.stem not in ("__init__", "probe", "roster", "assemble"))
    modules = [import_module(f"trueloop.probes.{name}") for name in names]
    return tuple(
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Probe) and value.__module__ == module.__name__
    )


def assemble(wire: Wire, wanted: frozenset[type[Event]]) -> None:
    """Connect the roster, and each probe that emits something wanted, to the wire."""
    roster = Roster(wire)
    probes = [probe(wire, roster) for probe in all_probes() if wanted & set(probe.emits)]
    wire.connect([roster, *probes])
