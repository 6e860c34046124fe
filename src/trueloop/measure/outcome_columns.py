"""Columns that give a label away in one file, and not in a second one where nothing else has changed: they were filled,
or counted, after the outcome was known."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy
from numpy.typing import NDArray

from trueloop.measure.correlation import correlation_of_arrays, ranks
from trueloop.measure.distributions import distance
from trueloop.measure.tables import Table

__all__ = ["Leak", "leaks"]

MOST_ROWS: Final = 3000
MOST_COLUMNS: Final = 24
ENOUGH: Final = 250  # rows in which a relation that is there would show
GIVEN_AWAY: Final = 0.6  # correlation of a column with a label, or the distance of its distributions in two classes
LOST: Final = 0.15
KEPT: Final = 0.2  # how far the correlations of the other columns with that label may differ
LEAST_OF_A_CLASS: Final = 30  # rows
CHANCE: Final = 2.2  # times sqrt(1/n + 1/m): two samples of one population are closer than this (Kolmogorov-Smirnov)
SHOWS: Final = 6.0  # standard errors by which a probe on the other columns tells rows of one class from all rows
SAME_MIX: Final = 0.5  # of that difference: a file with as many rows of each class
MOST_WORDS: Final = 40  # of a column
RIDGE: Final = 1e-2

Floats = NDArray[numpy.float64]


class Leak(NamedTuple):
    """A column that gives a label away in one file, and says nothing about it in the other."""

    column: str
    label: str
    inside: tuple[float, float]  # absolute correlation in each file
    labelled: bool = True  # both files; if not, `inside` is how far the column is from that of the first class


def leaks(first: Table, second: Table) -> Iterator[Leak]:
    yield from _in_labelled_files(first, second)
    yield from _in_unlabelled_file(first, second)
    for leak in _in_unlabelled_file(second, first):
        yield leak._replace(inside=(leak.inside[1], leak.inside[0]))


def _in_labelled_files(first: Table, second: Table) -> Iterator[Leak]:
    names = [c.name for c in first.columns if c.numbers is not None and c.name in second.names]
    names = [name for name in names if second.column(name).numbers is not None][:MOST_COLUMNS]
    if len(names) < 3:
        return
    a, b = _matrix(first, names), _matrix(second, names)
    if min(len(a), len(b)) < ENOUGH:
        return
    found = {leak.column: leak for pair in ((_ranks(a), _ranks(b)), (a, b)) for leak in _leaks(names, a, b, *pair)}
    yield from found.values()


def _leaks(names: list[str], values: Floats, others: Floats, a: Floats, b: Floats) -> Iterator[Leak]:
    """By the values or by their ranks: amounts of money have long tails."""
    for index, label in enumerate(names):
        if not (_is_label(values[:, index]) and _is_label(others[:, index])):
            continue
        pairs = {
            other: (abs(correlation_of_arrays(a[:, i], a[:, index])), abs(correlation_of_arrays(b[:, i], b[:, index])))
            for i, other in enumerate(names)
            if i != index
        }
        lost = [name for name, pair in pairs.items() if max(pair) >= GIVEN_AWAY and min(pair) <= LOST]
        kept = [pair for name, pair in pairs.items() if name not in lost]
        # The other columns must show that the label means the same in both files.
        if len(lost) == 1 and _agree(kept):
            yield Leak(lost[0], label, pairs[lost[0]])


def _ranks(matrix: Floats) -> Floats:
    """Of each value in its column."""
    return numpy.stack([ranks(column) for column in matrix.T], 1)


def _agree(pairs: list[tuple[float, float]]) -> bool:
    return all(abs(x - y) <= KEPT for x, y in pairs) and any(min(pair) > LOST for pair in pairs)


def _is_label(values: Floats) -> bool:
    codes, counts = numpy.unique(values, return_counts=True)
    return len(codes) == 2 and bool(counts.min() >= LEAST_OF_A_CLASS) and set(codes.tolist()) == {0.0, 1.0}


def _in_unlabelled_file(table: Table, new: Table) -> Iterator[Leak]:
    """A file to be predicted in which a column is distributed as in the rows of one class alone, while the other
    columns are those of a file with as many rows of each class as the labelled one has."""
    names = [c.name for c in table.columns if c.numbers is not None and c.name in new.names]
    names = [name for name in names if new.column(name).numbers is not None][:MOST_COLUMNS]
    labels = [c.name for c in table.columns if c.numbers is not None and c.name not in new.names]
    if len(names) < 3 or not 1 <= len(labels) <= 2:
        return
    joined, b = _matrix(table, [*names, *labels]), _matrix(new, names)
    if min(len(joined), len(b)) < ENOUGH:
        return
    a = joined[:, : len(names)]
    kept = [i for i in range(len(names)) if len(numpy.unique(a[:, i])) < len(a) or (a[:, i] != a[:, i].round()).any()]
    names, a, b = [names[i] for i in kept], a[:, kept], b[:, kept]  # without the numbers of rows
    chance = CHANCE * (1 / len(a) + 1 / len(b)) ** 0.5
    moved = [i for i in range(len(names)) if distance(a[:, i], b[:, i]) > chance]
    for label in labels if len(moved) == 1 else ():
        y = joined[:, labels.index(label) - len(labels)]
        rest = [i for i in range(len(names)) if i not in moved]
        apart = _like_one_class(a[:, moved[0]], b[:, moved[0]], y) if _is_label(y) else None
        if apart is None or len(joined) < min(table.rows, MOST_ROWS) or len(b) < min(new.rows, MOST_ROWS):
            continue
        words, others = _shares(table, new, y)
        known, unknown = numpy.column_stack([a[:, rest], *words]), numpy.column_stack([b[:, rest], *others])
        if _is_same_mix(known, unknown, y, apart[1]):
            yield Leak(names[moved[0]], label, (apart[0], 0.0), labelled=False)


def _shares(table: Table, new: Table, label: Floats) -> tuple[list[Floats], list[Floats]]:
    """The columns of words in both files, each word as the share of the label in its rows of the labelled file."""
    found: tuple[list[Floats], list[Floats]] = [], []
    for column in table.columns:
        other = new.column(column.name).words if column.name in new.names else None
        if column.words is None or column.kind == "digest" or other is None:
            continue
        values, codes = numpy.unique(column.words[: len(label)], return_inverse=True)
        if len(values) > MOST_WORDS or not set(other) <= set(values.tolist()):
            continue
        shares = numpy.bincount(codes, label) / numpy.bincount(codes)
        found[0].append(shares[codes])
        found[1].append(shares[numpy.searchsorted(values, other[:MOST_ROWS])])
    return found


def _like_one_class(column: Floats, new: Floats, label: Floats) -> tuple[float, float] | None:
    """How far the other class is from the one that all new values are distributed as, and that class."""
    for one in (0.0, 1.0):
        mine, others = column[label == one], column[label != one]
        apart, near = distance(mine, others), distance(mine, new)
        if apart >= GIVEN_AWAY and near <= LOST and distance(column, new) >= 2 * near:
            return apart, one
    return None


def _is_same_mix(a: Floats, b: Floats, label: Floats, one: float) -> bool:
    """Whether a probe on the other columns finds the classes of both files alike, where it would show if the new rows
    were of one class."""
    scale = numpy.maximum(a.std(0), 1e-12)
    x, u = ((numpy.clip((part - a.mean(0)) / scale, -5, 5)) for part in (a, b))
    weights = numpy.linalg.solve(x.T @ x + RIDGE * len(x) * numpy.eye(x.shape[1]), x.T @ (label - label.mean()))
    scores, new = x @ weights, u @ weights
    error = float(scores.std()) * (1 / len(scores) + 1 / len(new)) ** 0.5
    alone = abs(float(scores[label == one].mean() - scores.mean()))
    return alone >= SHOWS * error and abs(float(new.mean() - scores.mean())) <= SAME_MIX * alone


def _matrix(table: Table, names: list[str]) -> Floats:
    columns = [table.column(name).numbers for name in names]
    matrix = numpy.stack([column for column in columns if column is not None], 1)
    return matrix[numpy.isfinite(matrix).all(1)][:MOST_ROWS]
