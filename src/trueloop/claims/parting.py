"""Two traces side by side: at which step the weights part, which operation parted first, and of what kind that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

from trueloop.claims.trace import Batch, Entry, Trace, place_of, short_name
from trueloop.event import Place

__all__ = ["Kind", "Parting", "Suspect", "parting", "place_of"]

Kind = Literal["torch", "device", "computed", "outside", "loader", "length", "unknown"]
"""torch: its generator drew other numbers. device, computed: an operation gave something else for the same inputs, on a
device or on the host. outside: what differs did not come from torch's operations; loader: it came out of a loader.
length: one run is longer."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A draw that differed, by another generator than torch's, before the runs parted: perhaps the cause, perhaps of no
    consequence."""

    kind: Literal["python", "numpy"]
    function: str
    place: Place | None


@dataclass(frozen=True, slots=True)
class Parting:
    """Where two runs leave each other."""

    step: int
    """The first step whose weights differ, from 1."""
    kind: Kind
    operation: str = ""
    """addmm, uniform_ ...; empty: it could not be found."""
    place: Place | None = None
    """The user's line that runs it."""
    compared: int = 0
    """Operations before it that were the same."""
    suspects: tuple[Suspect, ...] = ()


def parting(one: Trace, other: Trace) -> Parting | None:
    """None: the weights are the same after every step. What differs without ever reaching a weight does not count."""
    step = next(
        (number for number, (a, b) in enumerate(zip(one.steps, other.steps, strict=False)) if a.digest != b.digest),
        None,
    )
    if step is None:
        common = min(len(one.steps), len(other.steps))
        longer = max(one, other, key=lambda trace: len(trace.steps))
        alike = len(one.steps) == len(other.steps)
        return (
            None
            if alike
            else Parting(common + 1, "length", suspects=_suspects(one, other, longer.steps[common].number))
        )
    limit = one.steps[step].number
    index = _first(one.operations, other.operations, limit)
    batch = _first_batch(one.batches, other.batches, limit)
    if batch is not None and (index is None or batch.number < one.operations[index].number):
        suspects = _suspects(one, other, batch.number)
        return Parting(step + 1, "loader", "", place_of(one, batch.place), index or len(one.operations), suspects)
    if index is None:
        return Parting(step + 1, "unknown", compared=len(one.operations), suspects=_suspects(one, other, limit))
    entry = one.operations[index]
    kind = _kind(entry, other.operations[index] if index < len(other.operations) else None)
    suspects = _suspects(one, other, entry.number) if kind == "outside" else ()
    return Parting(step + 1, kind, short_name(entry.name), place_of(one, entry.place), index, suspects)


def _first(here: Sequence[Entry], there: Sequence[Entry], limit: int) -> int | None:
    """The first operation that differs; one on memory that nobody has filled only if there is no other."""
    unsure: int | None = None
    for index, (a, b) in enumerate(zip_longest(here, there)):
        if a is None or a.number > limit:
            break
        if b is None or a.name != b.name:
            return index
        if (a.digest, a.arrived) != (b.digest, b.arrived):
            if not a.raw:
                return index
            unsure = index if unsure is None and "empty" not in a.name else unsure
    return unsure


def _first_batch(here: Sequence[Batch], there: Sequence[Batch], limit: int) -> Batch | None:
    pairs = zip(here, there, strict=False)
    return next(
        (a for a, b in pairs if a.number <= limit and (a.loader, a.index, a.digest) != (b.loader, b.index, b.digest)),
        None,
    )


def _kind(here: Entry, there: Entry | None) -> Kind:
    if there is None or here.name != there.name:
        return "outside"  # the program went another way: what decided that was not computed by torch
    if here.draws:
        return "torch"
    if here.arrived != there.arrived:
        return "outside"
    return "computed" if here.device == "cpu" else "device"


def _suspects(one: Trace, other: Trace, before: int) -> tuple[Suspect, ...]:
    """The last draw of Python's and of numpy's generators before that, if those had drawn other numbers by then; the
    later first."""
    pairs = zip_longest(one.draws, other.draws)
    first = next(
        (
            index
            for index, (a, b) in enumerate(pairs)
            if a is None or b is None or (a.name, a.digest) != (b.name, b.digest)
        ),
        None,
    )
    found: dict[str, Suspect] = {}
    for entry in reversed(one.draws[first:] if first is not None else []):
        kind: Literal["python", "numpy"] = "numpy" if entry.name.startswith("numpy.") else "python"
        if entry.number < before:
            found.setdefault(kind, Suspect(kind, entry.name, place_of(one, entry.place)))
    return tuple(found.values())
