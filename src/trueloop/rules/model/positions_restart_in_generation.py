"""MDL130 positions-restart-in-generation: with a key/value cache, each new token is given position 0.

What it sees
------------
In recorded evaluations an attention layer joins keys of earlier calls with those of new tokens, and the position table
of the same call was read from position 0 on, for at least two different lengths of the cache. In training the same
table was read up to these positions, and never beside earlier keys.

Why it hurts
------------
The model has learned that the token after seven others is at position 7. With position 0 for each new token,
generated text is wrong although the loss and all numbers from teacher forcing are good.

Evidence
--------
The table, the lengths of the cache, and the largest position in training.

Use instead
-----------
    start = 0 if cache is None else cache[0][0].shape[2]      # tokens that the cache holds
    positions = torch.arange(start, start + tokens.shape[1])

When it is fine
---------------
Not reported: positions that begin where the cache ends, models without a position table (relative or rotary
positions), models that were trained on pieces with a memory, and generation without a cache.
"""

import re
from dataclasses import dataclass
from typing import Final

from trueloop.event import Operation, StepProgram
from trueloop.event.operation_names import ATTENTION, JOINS, MATRIX_PRODUCTS, PICKS, TRANSPOSES, VIEWS
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity, on_line

__all__ = ["PositionsRestartInGeneration"]

LENGTHS: Final = 2  # different lengths of the cache that must show it
_BETWEEN: Final = VIEWS | TRANSPOSES | {"mT", "T"}
_SLICE: Final = re.compile(r"slice\((\w+), (\w+), None\)")
_MOST: Final = 12  # operations between the joined keys and the attention


@dataclass(slots=True)
class _Lookup:
    """One reading of a table of positions."""

    table: str
    first: int
    last: int
    operation: Operation
    cached: int | None = None  # tokens in the cache of this call

    @property
    def tokens(self) -> int:
        return self.last - self.first + 1


class PositionsRestartInGeneration(Rule, code="MDL130", severity=Severity.ERROR):
    not_applicable = "no training step was recorded"

    def __init__(self) -> None:
        self._trained: dict[str, int] = {}  # by table: the largest position in training
        self._memory: set[str] = set()  # tables that training reads beside earlier keys
        self._lengths: dict[str, set[int]] = {}

    def on_step_program(self, event: StepProgram) -> Findings:
        view = ProgramView(event)
        lookups = _lookups(view)
        for lookup in lookups:
            if event.phase == "training":
                self._trained[lookup.table] = max(lookup.last, self._trained.get(lookup.table, 0))
                if lookup.cached:
                    self._memory.add(lookup.table)
        if event.phase == "training":
            return
        for lookup in lookups:
            trained, cached = self._trained.get(lookup.table, 0), lookup.cached or 0
            if lookup.first != 0 or not 0 < cached <= trained or lookup.table in self._memory:
                continue
            lengths = self._lengths.setdefault(lookup.table, set())
            lengths.add(cached)
            if len(lengths) < LENGTHS or self.count(lookup.table) != 1:
                continue
            few = sorted(lengths)[:LENGTHS]
            place = lookup.operation.place
            yield self.finding(
                event,
                f"The positions of new tokens begin at 0{on_line(place)} while the cache holds {few[0]}, then "
                f"{few[1]} earlier tokens. In training, positions went up to {trained}.",
                fix="Begin at the length of the cache: `torch.arange(past, past + tokens.shape[1])`.",
                evidence={"table": lookup.table, "cached": few, "largest_trained": trained},
                place=place,
            )


def _lookups(view: ProgramView) -> list[_Lookup]:
    """Readings of tables by positions, each with the length of the cache that the same call joins; a reading beside
    caches of different lengths belongs to another call."""
    found: list[_Lookup] = []
    latest: dict[int, _Lookup] = {}  # by model
    for operation in view.operations:
        lookup = _lookup(view, operation)
        if lookup is not None:
            latest[operation.model] = lookup
            found.append(lookup)
            continue
        current = latest.get(operation.model)
        cached = _cached(view, operation, current.tokens) if current is not None else None
        if current is None or cached is None:
            continue
        if current.cached not in (None, cached):
            found.remove(current)
            del latest[operation.model]
        else:
            current.cached = cached
    return found


def _lookup(view: ProgramView, operation: Operation) -> _Lookup | None:
    if not operation.inputs or operation.model < 0:
        return None
    if operation.name == "embedding" and len(operation.inputs) == 2:
        index, table = operation.inputs
        position, rows = view.values[index], view.values[table]
        sources = [view.values[i].origin for i in view.contents(index)]
        counted = position.shape and not {"batch", "outside", "parameter"} & set(sources)
        if counted and rows.name and position.smallest is not None and position.largest is not None:
            first, last = int(position.smallest), int(position.largest)
            return _Lookup(rows.name, first, last, operation) if position.shape[-1] == last - first + 1 else None
        return None
    rows = view.values[operation.inputs[0]]
    cuts = [cut for _, text in operation.options for cut in _SLICE.findall(text) if cut != ("None", "None")]
    if operation.name not in PICKS or rows.origin not in ("parameter", "buffer") or len(cuts) != 1 or not rows.name:
        return None
    start, stop = cuts[0]
    fits = stop.isdigit() and (start == "None" or start.isdigit())
    return _Lookup(rows.name, int(start) if start.isdigit() else 0, int(stop) - 1, operation) if fits else None


def _cached(view: ProgramView, operation: Operation, tokens: int) -> int | None:
    """The number of earlier tokens, where this operation joins their keys or values with those of new tokens."""
    if operation.name not in JOINS or len(operation.inputs) != 2 or not operation.outputs:
        return None
    past, new = (view.values[index].shape for index in operation.inputs)
    joined = view.values[operation.outputs[0]].shape
    if len(past) < 3 or len(past) != len(new):
        return None
    grown = [dim for dim, size in enumerate(joined) if size != new[dim]]
    if len(grown) != 1 or new[grown[0]] != tokens or joined[grown[0]] != past[grown[0]] + tokens:
        return None
    source = view.values[view.through_views(operation.inputs[0])]
    return past[grown[0]] if source.origin != "parameter" and _is_attended(view, operation.outputs[0]) else None


def _is_attended(view: ProgramView, value: int) -> bool:
    waiting, seen = [value], {value}
    while waiting and len(seen) < _MOST:
        for reader in view.readers.get(waiting.pop(), ()):
            if reader.name in ATTENTION or reader.name in MATRIX_PRODUCTS or reader.name in ("einsum", "baddbmm"):
                return True
            if reader.name in _BETWEEN:
                waiting += [i for i in reader.outputs if i not in seen]
                seen.update(reader.outputs)
    return False
