"""Running columns that were updated with the outcome of their own row: a rating after the match, a count of events that
includes this one.

Such a column belongs to somebody (a team, a customer) and changes from one of their rows to the next. What was known
before an outcome changes by the outcome of the row before; what was written after it changes by its own. The sign of
the change shows which: a rating rises after a win and falls after a loss, without an exception.
"""

import re
from collections.abc import Iterator
from itertools import combinations, permutations
from typing import Final, NamedTuple

import numpy
from numpy.typing import NDArray

from trueloop.measure.tables import Table, Values
from trueloop.usercode.names import words_of

__all__ = ["OwnOutcome", "own_outcome"]

LEAST: Final = 60  # changes for each of two outcomes
MOST_OUTCOMES: Final = 5
LEAST_GROUPS: Final = 3
ROWS_PER_GROUP: Final = 5.0
MOST_ROWS: Final = 20_000
DISTINCT: Final = 6  # values of a running column
SAME: Final = 0.9  # of the values of two columns that name the two sides of a match
SURE: Final = 0.99  # of the changes that have the sign of their outcome
UNSURE: Final = 0.85  # by the outcome of the row before: with more, both say it
_LABELS: Final = frozenset(
    ("label", "labels", "target", "targets", "y", "class", "outcome", "result", "won", "win", "winner")
)

Floats = NDArray[numpy.float64]
Codes = NDArray[numpy.int64]


class OwnOutcome(NamedTuple):
    column: str
    group: str
    label: str
    rows: int  # that have a row before
    own: float  # share of the changes whose sign the outcome of the same row gives
    earlier: float  # the same, of the outcome of the row before


class _Side(NamedTuple):
    """Columns that say who a row is about, and the running columns of each, side by side: home and away."""

    groups: tuple[Values, ...]
    columns: tuple[tuple[Values, ...], ...]


def own_outcome(table: Table) -> OwnOutcome | None:
    """The column that follows most surely from the outcomes of its own rows."""
    label = _label(table)
    if label is None or table.lines or not table.named:
        return None
    outcomes = _codes(label)[:MOST_ROWS]
    found = [one for side in _sides(table, label.name) for columns in side.columns
             if (one := _followed(side.groups, columns, label.name, outcomes)) is not None]  # fmt: skip
    return max(found, key=lambda one: one.own - one.earlier, default=None)


def _label(table: Table) -> Values | None:
    """The column that is named so, or the last one if it is 0 or 1. Words in the last column may be kinds of rows: of
    transactions, beside a balance."""
    named = [column for column in table.columns if not _LABELS.isdisjoint(words_of(column.name))]
    column = named[0] if len(named) == 1 else table.columns[-1] if table.columns else None
    if column is None or column.kind == "digest" or not 2 <= len(set(_cells(column))) <= MOST_OUTCOMES:
        return None
    return column if named[:1] == [column] or set(_cells(column)) == {0.0, 1.0} else None


def _cells(column: Values) -> list[str] | list[float]:
    return (column.words or []) if column.numbers is None else column.numbers.tolist()


def _codes(column: Values) -> Codes:
    return numpy.asarray(numpy.unique(numpy.array(_cells(column)), return_inverse=True)[1], dtype=numpy.int64)


def _sides(table: Table, label: str) -> Iterator[_Side]:
    groups = [column for column in table.columns if column.name != label and _names_groups(column)]
    running = {
        column.name: column
        for column in table.columns
        if column.numbers is not None and column.name != label and numpy.isfinite(column.numbers).all()
        and len(numpy.unique(column.numbers)) >= DISTINCT
    }  # fmt: skip
    opposed: dict[str, str] = {}
    for one, other in combinations(groups, 2):
        mine, theirs = set(_cells(one)), set(_cells(other))
        if len(mine & theirs) >= SAME * len(mine | theirs):
            opposed |= {one.name: other.name, other.name: one.name}
            pairs = [(running[a], running[b]) for a in running for b in running
                     if a != b and _is_other_side(a, b, one.name, other.name)]  # fmt: skip
            yield _Side((one, other), tuple(pairs))
    for one in groups:
        if one.name not in opposed:
            yield _Side((one,), tuple((column,) for column in running.values() if column.name != one.name))


def _names_groups(column: Values) -> bool:
    values = column.numbers
    if column.kind == "digest" or (values is not None and not (values == numpy.round(values)).all()):
        return False
    count = len(set(_cells(column)))
    return LEAST_GROUPS <= count <= len(column) / ROWS_PER_GROUP


def _is_other_side(a: str, b: str, one: str, other: str) -> bool:
    """`elo_home` and `elo_away` beside `home` and `away`."""
    first, second, mine, theirs = (re.findall(r"[a-z]+|\d+", name.lower()) for name in (one, other, a, b))
    here = [word for word in first if word not in second]
    there = [word for word in second if word not in first]
    if len(here) != 1 or len(there) != 1 or here[0] not in mine:
        return False
    return [there[0] if word == here[0] else word for word in mine] == theirs


def _followed(
    groups: tuple[Values, ...], columns: tuple[Values, ...], label: str, outcomes: Codes
) -> OwnOutcome | None:
    """One long table: for each row, each side with its value and the outcome as this side sees it."""
    sides = len(groups)
    ids = numpy.stack([numpy.array(_cells(each)[:MOST_ROWS]).astype(str) for each in groups], 1).reshape(-1)
    values = numpy.stack([each.numbers[:MOST_ROWS] for each in columns if each.numbers is not None], 1).reshape(-1)
    seen = (outcomes[:, None] * sides + numpy.arange(sides)).reshape(-1)
    order = numpy.argsort(ids, kind="stable")
    same = ids[order][1:] == ids[order][:-1]
    change = numpy.diff(values[order])[same]
    later, earlier = seen[order][1:][same], seen[order][:-1][same]
    own, before = _share(change, later), _share(change, earlier)
    if own < SURE or before > UNSURE:
        return None
    return OwnOutcome(columns[0].name, groups[0].name, label, len(change), own, before)


def _share(change: Floats, outcomes: Codes) -> float:
    """Of the changes after two outcomes: the share that has their sign, for the two outcomes that show it best. After
    one of them it may never change."""
    rises, falls, stays = [], [], []
    for outcome in numpy.unique(outcomes):
        mine = change[outcomes == outcome]
        moved = mine[mine != 0]
        if len(mine) >= LEAST:
            up = float((moved > 0).mean()) if len(moved) >= LEAST else 0.0
            rises.append(up)
            falls.append(1 - up if len(moved) >= LEAST else 0.0)
            stays.append(float((mine == 0).mean()))
    pairs = permutations(range(len(rises)), 2)
    return max((max(min(rises[a], falls[b]), min(max(rises[a], falls[a]), stays[b])) for a, b in pairs), default=0.0)
