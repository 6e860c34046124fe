"""Two traces compared: the step after which the weights differ, the first operation that differs, and its kind."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

from trueloop.claims.operation_trace import Batch, Entry, Trace, place_of, short_name
from trueloop.event import Place

__all__ = ["Difference", "Kind", "Suspect", "first_difference"]

Kind = Literal["torch", "device", "computed", "outside", "loader", "length", "unknown"]
"""torch: its generator drew different numbers. device, computed: an operation gave a different output for the same
inputs, on a device or on the host. outside: the difference did not come from an operation of torch; loader: it came
from a loader. length: one run is longer."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A draw of Python's or numpy's generator that differed before the runs did: perhaps the cause, perhaps not."""

    kind: Literal["python", "numpy"]
    function: str
    place: Place | None


@dataclass(frozen=True, slots=True)
class Difference:
    step: int  # the first step whose weights differ, from 1
    kind: Kind
    operation: str = ""  # addmm, uniform_ ...; empty: not found
    place: Place | None = None  # the user's line that runs it
    compared: int = 0  # equal operations before it
    suspects: tuple[Suspect, ...] = ()


def first_difference(one: Trace, other: Trace) -> Difference | None:
    """None: the weights are equal after every step. Differences that never reach a weight do not count."""
    pairs = enumerate(zip(one.steps, other.steps, strict=False))
    step = next((number for number, (a, b) in pairs if a.digest != b.digest), None)
    if step is None:
        if len(one.steps) == len(other.steps):
            return None
        shorter, longer = sorted((one, other), key=lambda trace: len(trace.steps))
        common = len(shorter.steps)
        return Difference(common + 1, "length", suspects=_suspects(one, other, longer.steps[common].number))
    limit = one.steps[step].number
    index = _first_operation(one.operations, other.operations, limit)
    batch = _first_batch(one.batches, other.batches, limit)
    if batch is not None and (index is None or batch.number < one.operations[index].number):
        suspects = _suspects(one, other, batch.number)
        return Difference(step + 1, "loader", "", place_of(one, batch.place), index or len(one.operations), suspects)
    if index is None:
        return Difference(step + 1, "unknown", compared=len(one.operations), suspects=_suspects(one, other, limit))
    entry = one.operations[index]
    kind = _kind(entry, other.operations[index] if index < len(other.operations) else None)
    suspects = _suspects(one, other, entry.number) if kind == "outside" else ()
    return Difference(step + 1, kind, short_name(entry.name), place_of(one, entry.place), index, suspects)


def _first_operation(one: Sequence[Entry], other: Sequence[Entry], limit: int) -> int | None:
    """One on uninitialized memory only if there is no other."""
    uncertain: int | None = None
    for index, (a, b) in enumerate(zip_longest(one, other)):
        if a is None or a.number > limit:
            break
        if b is None or a.name != b.name:
            return index
        if (a.digest, a.arrived) != (b.digest, b.arrived):
            if not a.raw:
                return index
            uncertain = index if uncertain is None and "empty" not in a.name else uncertain
    return uncertain


def _first_batch(one: Sequence[Batch], other: Sequence[Batch], limit: int) -> Batch | None:
    pairs = ((a, b) for a, b in zip(one, other, strict=False) if a.number <= limit)
    return next((a for a, b in pairs if (a.loader, a.index, a.digest) != (b.loader, b.index, b.digest)), None)


def _kind(one: Entry, other: Entry | None) -> Kind:
    if other is None or one.name != other.name:
        return "outside"  # the program took a different branch, and torch did not compute the condition
    if one.draws:
        return "torch"
    if one.arrived != other.arrived:
        return "outside"
    return "computed" if one.device == "cpu" else "device"


def _suspects(one: Trace, other: Trace, before: int) -> tuple[Suspect, ...]:
    """The last draws of Python's and of numpy's generator before that, if they differed by then; later first."""
    pairs = enumerate(zip_longest(one.draws, other.draws))
    differing = (at for at, (a, b) in pairs if a is None or b is None or (a.name, a.digest) != (b.name, b.digest))
    first = next(differing, len(one.draws))
    found: dict[str, Suspect] = {}
    for entry in reversed(one.draws[first:]):
        kind: Literal["python", "numpy"] = "numpy" if entry.name.startswith("numpy.") else "python"
        if entry.number < before:
            found.setdefault(kind, Suspect(kind, entry.name, place_of(one, entry.place)))
    return tuple(found.values())
