"""Tables of two columns that give each document its labels, one row for each: of which only the first are left."""

import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import permutations
from typing import Final, NamedTuple

from trueloop.measure.tables import Table

__all__ = ["FirstOnly", "first_only"]

LEAST: Final = 200  # ids
MOST_LABELS: Final = 200
OFTEN: Final = 3  # ids for each label, at least
SEVERAL: Final = 0.4  # of the other ids have several labels
KNOWN: Final = 0.95  # of the ids of a part are in the table
GROUPS: Final = 6
NEARER: Final = 3.0  # times as near to the first labels as to all labels
NOISE: Final = 3.0  # times the distance that a sample of this size has by chance

Part = tuple[str, set[str]]


class FirstOnly(NamedTuple):
    id: str  # column
    label: str
    part: str  # in which each id has one label
    ids: int
    other: str
    mean: float  # labels of an id there
    distance: float  # of the labels of the part from all labels of the other one
    to_first: float  # from the first label of each id there


def first_only(link: Table, tables: list[Table]) -> FirstOnly | None:
    """Ids of one part with exactly one label each, where those of another part have several, and as often as their
    first labels: the table was deduplicated by its id."""
    if len(link.columns) != 2 or not link.complete or any(c.words is None or c.kind == "digest" for c in link.columns):
        return None
    for key, label in ((0, 1), (1, 0)):
        ids, labels = link.columns[key].words or [], link.columns[label].words or []
        if not len(set(ids)) >= LEAST or not 3 <= len(set(labels)) <= min(MOST_LABELS, len(set(ids)) / OFTEN):
            continue
        given: defaultdict[str, list[str]] = defaultdict(list)
        for each, name in zip(ids, labels, strict=True):
            given[each].append(name)
        for (part, members), (other, others) in _pairs(set(given), link, tables):
            found = _first_only(given, members, others)
            if found is not None:
                return FirstOnly(link.columns[key].name, link.columns[label].name, part, len(members), other, *found)
    return None


def _first_only(given: dict[str, list[str]], members: set[str], others: set[str]) -> tuple[float, float, float] | None:
    if min(len(members), len(others)) < LEAST or any(len(given[each]) != 1 for each in members):
        return None
    if sum(len(given[each]) > 1 for each in others) < SEVERAL * len(others):
        return None
    here = Counter(given[each][0] for each in members)
    everything = Counter(name for each in others for name in given[each])
    first = Counter(given[each][0] for each in others)
    distance, to_first = _distance(here, everything), _distance(here, first)
    chance = (len(everything) / min(len(members), len(others))) ** 0.5 / 2
    if distance < max(NOISE * chance, NEARER * to_first):
        return None
    return everything.total() / len(others), distance, to_first


def _distance(one: Counter[str], other: Counter[str]) -> float:
    """Half of the sum of the differences of their shares."""
    names = one.keys() | other.keys()
    return sum(abs(one[name] / one.total() - other[name] / other.total()) for name in names) / 2


def _pairs(ids: set[str], link: Table, tables: list[Table]) -> Iterator[tuple[Part, Part]]:
    """Parts of the ids: by file, or by a column of a file that says which part each id belongs to."""
    files: list[Part] = []
    for table in tables:
        for column in table.columns if table.path != link.path else ():
            cells = column.words or []
            known = ids.intersection(cells)
            if column.kind == "digest" or len(set(cells)) < LEAST or len(known) < KNOWN * len(set(cells)):
                continue
            files.append((os.path.basename(table.path), known))
            for values in (each.words or [] for each in table.columns if each.kind != "digest"):
                if 2 <= len(set(values)) <= GROUPS:
                    parts: dict[str, set[str]] = {value: set() for value in values}
                    for cell, value in zip(cells, values, strict=True):
                        parts[value].add(cell)
                    yield from permutations([(value, cells & ids) for value, cells in parts.items()], 2)
    yield from permutations(files, 2)
