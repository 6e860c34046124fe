"""Rows of a file for evaluation that are rows of the training file but for a little noise: other rows are far apart."""

from typing import Final, NamedTuple

import numpy
from numpy.typing import NDArray

from trueloop.measure.tables import Table, Values

__all__ = ["NearCopies", "distances", "features", "near_copies"]

LEAST: Final = 100  # rows of each file
MOST_ROWS: Final = 6000  # of the training file
SAMPLED: Final = 500  # rows whose nearest one is looked for
WIDEST: Final = 64  # numbers of a row of an array
NEAR: Final = 0.15  # of the median distance of a training row to its nearest one
GAP: Final = 2.0  # times as far there are almost no rows: in any smooth density there are as many as nearer, or more
IN_GAP: Final = 0.25  # of those that are near
OFTEN: Final = 0.1  # of the rows for evaluation
BY_NATURE: Final = 0.2  # training rows are near to one another this much more seldom
EQUAL: Final = 1e-9
KEYED: Final = 0.5  # of the pairs have one key: two measurements of one thing

Floats = NDArray[numpy.float64]


class NearCopies(NamedTuple):
    share: float  # of the rows for evaluation
    near: float  # their distance to the nearest training row, in the median, in standard deviations
    apart: float  # that of training rows to one another


def near_copies(training: Table, other: Table) -> NearCopies | None:
    pair = features(training, other)
    if pair is None or min(training.rows, other.rows) < LEAST:
        return None
    known, rows = pair
    known = known[:: -(-len(known) // MOST_ROWS)]
    mine, own = numpy.arange(len(known))[:: -(-len(known) // SAMPLED)], numpy.arange(len(rows))
    own = own[:: -(-len(own) // SAMPLED)]
    apart = distances(known[mine], known, mine).min(1)
    middle = float(numpy.median(apart))
    if not middle:
        return None
    each = distances(rows[own], known)
    nearest, closest = each.argmin(1), each.min(1)
    near = (closest > EQUAL) & (closest < NEAR * middle)
    beyond = (closest >= NEAR * middle) & (closest < GAP * NEAR * middle)
    natural = float((apart < NEAR * middle).mean())
    if near.mean() < max(OFTEN, natural / BY_NATURE) or beyond.sum() > IN_GAP * near.sum():
        return None
    step = -(-training.rows // MOST_ROWS)
    if _one_key(training, other, nearest[near] * step, own[near]):
        return None
    return NearCopies(float(near.mean()), float(numpy.median(closest[near])), middle)


def features(training: Table, other: Table) -> tuple[Floats, Floats] | None:
    """The numbers of both, but ids, by the spread of the training rows; None if there are rows without numbers."""
    pairs = [(c.numbers, other.column(c.name).numbers) for c in training.columns
             if c.name in other.names and not _is_key(c) and c.kind in ("text", *_MEASURED)]  # fmt: skip
    parts = [(a[:, None], b[:, None]) for a, b in pairs if a is not None and b is not None]
    for name, array in training.arrays:
        theirs = dict(other.arrays).get(name)
        if theirs is not None and theirs.shape[1:] == array.shape[1:] and array.dtype.kind in "fiub":
            step = -(-array[0].size // WIDEST)
            wide = (each.reshape(len(each), -1)[:, ::step].astype(numpy.float64) for each in (array, theirs))
            if f"{name}[0]" not in training.names:
                parts.append((next(wide), next(wide)))
    if not parts:
        return None
    a, b = (numpy.concatenate(side, 1) for side in zip(*parts, strict=True))
    finite = numpy.isfinite(a).all(0) & numpy.isfinite(b).all(0)
    a, b = a[:, finite], b[:, finite]
    moving = a.std(0) > 0
    a, b = a[:, moving], b[:, moving]
    return ((a - a.mean(0)) / a.std(0), (b - a.mean(0)) / a.std(0)) if moving.any() else None


def distances(rows: Floats, others: Floats, without: NDArray[numpy.int64] | None = None) -> Floats:
    """Of each row to each other one; `without`: the place of each row among the others, which does not count."""
    squares = (rows**2).sum(1)[:, None] + (others**2).sum(1) - 2 * rows @ others.T
    if without is not None:
        squares[numpy.arange(len(rows)), without] = numpy.inf
    found: Floats = numpy.sqrt(numpy.maximum(squares, 0))
    found[found < 1e-6] = 0.0
    return found


_MEASURED: Final = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "bool")


def _is_key(column: Values) -> bool:
    """A different whole number in every row."""
    values = column.numbers
    if values is None or not numpy.isfinite(values).all() or not bool((values == numpy.round(values)).all()):
        return False
    return len(numpy.unique(values)) == len(values)


def _one_key(training: Table, other: Table, known: NDArray[numpy.int64], rows: NDArray[numpy.int64]) -> bool:
    """Whether near rows have one name that no other training row has: a customer in two years."""
    for column in training.columns:
        if column.name not in other.names or column.kind == "digest":
            continue
        if column.words is not None:
            ours, theirs = numpy.array(column.words), numpy.array(other.column(column.name).words or [""] * other.rows)
        elif _is_key(column):
            ours, theirs = numpy.asarray(column.numbers), numpy.asarray(other.column(column.name).numbers)
        else:
            continue
        if len(numpy.unique(ours)) == len(ours) and (ours[known] == theirs[rows]).mean() >= KEYED:
            return True
    return False
