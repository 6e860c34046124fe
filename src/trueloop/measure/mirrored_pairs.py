"""Pairs for evaluation that are training pairs written the other way round: (b, a) for (a, b), with the same label.

A model that is symmetric in the two has seen them. Matches at home and away are played twice, and have a result each;
a directed graph has some of its edges in both directions in the training file too.
"""

from itertools import combinations
from typing import Final, NamedTuple

from trueloop.measure.tables import Table, Values

__all__ = ["MirroredPairs", "mirrored_pairs"]

LEAST: Final = 50  # pairs
NAMES: Final = 20  # different things that are paired
MOST_COLUMNS: Final = 8
SHARED: Final = 0.5  # of the names of one column that are in the other
SHARE: Final = 0.2  # of the pairs for evaluation
RARELY: Final = 0.002  # of the training pairs are in it both ways: each pair is written once
AS_BEFORE: Final = 0.98  # of the mirrored pairs have the label of the training pair
BY_CHANCE: Final = 0.85  # share of the most frequent label: with more, labels agree anyway
MOST_LABELS: Final = 50


class MirroredPairs(NamedTuple):
    columns: tuple[str, str]
    label: str
    pairs: int


def mirrored_pairs(training: Table, evaluation: Table) -> MirroredPairs | None:
    names = [name for name in training.names[:MOST_COLUMNS] if name in evaluation.names]
    labels = [name for name in names if _is_label(training.column(name)) and _is_label(evaluation.column(name))]
    for first, second in combinations([name for name in names if name not in labels], 2):
        for label in labels:
            found = _mirrored(training, evaluation, (first, second), label)
            if found is not None:
                return found
    return None


def _mirrored(training: Table, evaluation: Table, names: tuple[str, str], label: str) -> MirroredPairs | None:
    known, asked = _labelled(training, names, label), _labelled(evaluation, names, label)
    if known is None or asked is None or min(len(known), len(asked)) < LEAST:
        return None
    firsts, seconds = ({pair[side] for pair in known} for side in (0, 1))
    if min(len(firsts), len(seconds)) < NAMES or len(firsts & seconds) < SHARED * min(len(firsts), len(seconds)):
        return None
    if sum((b, a) in known for a, b in known if a != b) > RARELY * len(known):
        return None
    mirrored = [(a, b) for a, b in asked if (b, a) in known and (a, b) not in known]
    same = sum(asked[a, b] == known[b, a] for a, b in mirrored)
    if len(mirrored) < max(LEAST, SHARE * len(asked)) or same < AS_BEFORE * len(mirrored):
        return None
    counts = [list(known.values()).count(value) for value in set(known.values())]
    return MirroredPairs(names, label, len(mirrored)) if max(counts) <= BY_CHANCE * len(known) else None


def _labelled(table: Table, names: tuple[str, str], label: str) -> dict[tuple[object, object], object] | None:
    first, second, given = (_cells(table.column(name)) for name in (*names, label))
    if first is None or second is None or given is None:
        return None
    return {(a, b): value for a, b, value in zip(first, second, given, strict=True)}


def _cells(column: Values) -> list[str] | list[float] | None:
    """Names, or whole numbers."""
    if column.numbers is None:
        return None if column.kind == "digest" else column.words
    return column.numbers.tolist() if bool((column.numbers == column.numbers.round()).all()) else None


def _is_label(column: Values) -> bool:
    cells = _cells(column)
    return cells is not None and 2 <= len(set(cells)) < min(MOST_LABELS, NAMES)
