"""Rows of an array beside the rows of a table, links between rows, sizes of groups of rows: in an order that fits?"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy
from numpy.typing import NDArray

from trueloop.measure.alignments import (
    CHANCE,
    FITS,
    Alignment,
    Order,
    Statistic,
    better_order,
    orders_of_keys,
    orders_of_rows,
    spread,
)
from trueloop.measure.tables import Table, Values

__all__ = [
    "LEAST",
    "MOST",
    "Misplaced",
    "association",
    "keys_of",
    "misplaced_groups",
    "misplaced_links",
    "misplaced_rows",
    "row_vectors",
    "targets_of",
]

LEAST: Final = 80  # rows
MOST: Final = 6000
WIDEST: Final = 192  # numbers of a row that are looked at
COMPONENTS: Final = 12
MOST_CLASSES: Final = 30
MOST_TARGETS: Final = 4  # columns
MOST_KEYS: Final = 3
LEAST_LINKS: Final = 150
LEAST_GROUPS: Final = 40
MOST_LINKS: Final = 20_000
MOST_GROUPED: Final = 100_000  # rows of groups
TAIL: Final = 4  # the last quarter of the rows, at least, is moved
EARLIEST: Final = 40  # row: those before it must fit as they are
MOST_MOVED: Final = 96  # rows
STEP: Final = 6.0  # deviations of the fit of one row that one more missing entry has to bring
RARE: Final = 0.02  # the smallest share of the rows of a class that shows something

Floats = NDArray[numpy.float64]


class Misplaced(NamedTuple):
    array: str  # name of the array inside its file; empty if the file is one array
    column: str  # of the table; of links, their two columns
    alignment: Alignment


def misplaced_rows(table: Table, arrays: Table) -> Misplaced | None:
    """Rows of an array that tell nothing about a column of a table row by row, and much in a different order."""
    if table.rows != arrays.rows or not LEAST <= table.rows <= MOST or not (table.complete and arrays.complete):
        return None
    keys = dict(keys_of(table))
    used = [numpy.arange(table.rows), *_indices(table)]
    others = orders_of_rows(table.rows)
    for name, words in list(keys.items())[:MOST_KEYS]:
        others |= orders_of_keys(f"`{name}`", words)
    for name, array in arrays.arrays:
        rows = row_vectors(array)
        if rows is None:
            continue
        for column, targets in list(targets_of(table, keys))[:MOST_TARGETS]:
            found = better_order([association(rows, targets)], used, others)
            found = found or moved_from(rows, targets)
            if found is not None:
                return Misplaced(name, column, found)
    return None


def moved_from(rows: Floats, targets: Floats) -> Alignment | None:
    """From one row on the targets are those of rows before or after, by one and at some later rows by one more each:
    entries are missing, or are there twice. Every second row shows the way, the others whether they fit on it."""
    count = len(rows)
    known, last = max(EARLIEST, count // 8), count - max(LEAST, count // TAIL)
    if known > last or _deviations(rows[last:], targets[last:]) >= CHANCE:
        return None
    if _deviations(rows[:known], targets[:known]) < CHANCE:
        return None
    for sign in (1, -1):
        way = _way(rows, targets, sign, known)
        start = int((way > 0).argmax())
        if not EARLIEST <= start <= last or _deviations(rows[:start], targets[:start]) < CHANCE:
            continue
        there = numpy.clip(numpy.arange(count) + sign * way, 0, count - 1)
        weights = rows[there[::2]].T @ targets[::2]
        fits = (rows[there] @ weights * targets).sum(1)[start | 1 :: 2]
        fit, used = _above(fits), _deviations(rows[start:], targets[start:])
        if used < CHANCE and fit >= FITS:
            end = f" to {sign * int(way[-1]):+d}" if way[-1] > 1 else ""
            return Alignment(f"moved by {sign:+d}{end} from row {start} on", used, fit, 0)
    return None


def _way(rows: Floats, targets: Floats, sign: int, known: int) -> Order:
    """How far away the row is that each target fits: 0 at first, never less than before. By every second row."""
    count = len(rows)
    far = min(MOST_MOVED, count // 8)
    weights = rows[:known:2].T @ targets[:known:2]
    way = numpy.zeros(count, dtype=numpy.int64)
    for _ in range(2):  # by the first rows, then by all
        seen = rows @ weights
        places = numpy.clip(numpy.arange(0, count, 2)[:, None] + sign * numpy.arange(far + 1), 0, count - 1)
        scores = numpy.stack([(seen[place] * targets[::2]).sum(1) for place in places.T], 1)
        way = _best_way(scores, STEP * float(scores[:, 1:].std())).repeat(2)[:count]
        there = numpy.clip(numpy.arange(count) + sign * way, 0, count - 1)
        weights = rows[there[::2]].T @ targets[::2]
    return way


def _best_way(scores: Floats, step: float) -> Order:
    """Of the columns, for each row, one that never decreases; a change costs `step`."""
    best = numpy.full(scores.shape[1], -numpy.inf)
    best[0] = 0.0
    came = numpy.zeros(scores.shape, dtype=numpy.int64)
    columns = numpy.arange(scores.shape[1])
    for index, row in enumerate(scores):
        highest = numpy.maximum.accumulate(best)
        first = numpy.maximum.accumulate(numpy.where(best >= highest, columns, 0))
        moves = highest - step > best
        came[index] = numpy.where(moves, first, columns)
        best = numpy.where(moves, highest - step, best) + row
    way = numpy.zeros(len(scores), dtype=numpy.int64)
    at = int(best.argmax())
    for index in range(len(scores) - 1, -1, -1):
        way[index] = at
        at = came[index, at]
    return way


def _above(fits: Floats) -> float:
    return float(fits.sum() / max(1e-300, float(numpy.sqrt((fits**2).sum()))))


def _deviations(rows: Floats, targets: Floats) -> float:
    """How well they fit as they are, in standard deviations from chance."""
    statistic = association(rows, targets)
    middle, deviation = spread(statistic, len(rows))
    return (statistic(numpy.arange(len(rows))) - middle) / deviation if deviation else 0.0


def misplaced_links(links: Table, nodes: Table) -> Misplaced | None:
    """Links that join rows which are not alike, where a different numbering joins rows which are."""
    ends = [c for c in links.columns if c.numbers is not None and _whole(c.numbers)][:2]
    others = [c for c in links.columns if c not in ends]
    if len(ends) < 2 or len(others) > 2 or links.rows < LEAST_LINKS or not LEAST <= nodes.rows <= MOST:
        return None
    pairs = numpy.stack([c.numbers for c in ends if c.numbers is not None], 1)[:MOST_LINKS].astype(numpy.int64)
    ids = next((i for i in _ids(nodes) if numpy.isin(pairs, i).mean() > 0.9), numpy.arange(nodes.rows))
    inside = numpy.isin(pairs, ids).all(1) & (pairs[:, 0] != pairs[:, 1])
    if inside.sum() < max(LEAST_LINKS, 0.9 * len(pairs)) or len(numpy.unique(pairs)) < 0.5 * nodes.rows:
        return None
    place = {int(value): row for row, value in enumerate(ids)}
    rows = numpy.array([[place[int(a)], place[int(b)]] for a, b in pairs[inside]])
    family = orders_of_rows(nodes.rows)
    by_id = numpy.argsort(ids)
    for by in (-1, 1):  # a number more or less, whatever the order of the rows
        family[f"moved by {by:+d}"] = by_id[numpy.clip(numpy.argsort(by_id) + by, 0, nodes.rows - 1)]
    for name, vectors in _features(nodes, ids):
        found = better_order([_likeness(vectors, rows)], [numpy.arange(nodes.rows)], family)
        if found is not None:
            return Misplaced(name, f"{ends[0].name}, {ends[1].name}", found)
    return None


def misplaced_groups(sizes: Table, rows: Table) -> Misplaced | None:
    """Sizes of groups by which unlike rows come together, where a different order of the sizes brings alike ones."""
    column = sizes.columns[0].numbers if len(sizes.columns) == 1 else None
    if column is None or not _whole(column) or column.min() < 1 or len(column) < LEAST_GROUPS:
        return None
    if column.sum() != rows.rows or not LEAST <= rows.rows <= MOST_GROUPED or len(numpy.unique(column)) < 3:
        return None
    columns = [c.numbers for c in rows.columns if c.numbers is not None and numpy.isfinite(c.numbers).all()]
    vectors = row_vectors(numpy.stack(columns, 1)) if columns else None
    if vectors is None:
        return None
    summed = numpy.concatenate([numpy.zeros((1, vectors.shape[1])), vectors.cumsum(0)])

    def likeness(order: Order) -> float:
        length = column[order]
        ends = numpy.concatenate([[0], length.cumsum()]).astype(numpy.int64)
        return float(((summed[ends[1:]] - summed[ends[:-1]]) ** 2 / length[:, None]).sum())

    found = better_order([likeness], [numpy.arange(len(column))], orders_of_rows(len(column)))
    return None if found is None else Misplaced("", sizes.columns[0].name, found)


def row_vectors(array: NDArray[Any], whiten: bool = True) -> Floats | None:
    """The main components of the rows, and of each row its mean, spread and maximum; None if they do not vary."""
    if array.dtype.kind not in "fiub" or not array.size:
        return None
    wide = numpy.asarray(array).reshape(len(array), -1)
    statistics = numpy.stack([wide.mean(1, dtype=numpy.float64), wide.std(1, dtype=numpy.float64), wide.max(1)], 1)
    wide = wide[:, :: max(1, wide.shape[1] // WIDEST)].astype(numpy.float64)
    if wide.shape[1] >= 8:
        wide = numpy.concatenate([wide, statistics], 1)
    if not numpy.isfinite(wide).all():
        return None
    wide = wide[:, wide.std(0) > 0]
    if not wide.shape[1]:
        return None
    wide = numpy.clip((wide - wide.mean(0)) / wide.std(0), -5, 5)
    if not numpy.isfinite(wide).all():  # numbers whose squares are beyond the range
        return None
    left, sizes, _ = numpy.linalg.svd(wide - wide.mean(0), full_matrices=False)
    kept = sizes > 1e-6 * sizes[0]
    vectors: Floats = (left * (1.0 if whiten else sizes / sizes[0]))[:, kept][:, :COMPONENTS] * len(wide) ** 0.5
    return vectors


def association(rows: Floats, targets: Floats) -> Statistic:
    """The size of the correlations of what belongs together; its root, because squares have long tails."""
    return lambda order: float(numpy.sqrt(((rows[order].T @ targets) ** 2).sum()))


def _likeness(vectors: Floats, pairs: Order) -> Statistic:
    return lambda order: float((vectors[order[pairs[:, 0]]] * vectors[order[pairs[:, 1]]]).sum(1).mean())


def targets_of(table: Table, keys: dict[str, list[str]]) -> Iterator[tuple[str, Floats]]:
    """Columns as numbers with mean 0: measured ones, and one column for each class."""
    for column in table.columns:
        if column.name in keys or column.kind == "digest":
            continue
        values = numpy.array(column.words) if column.numbers is None else column.numbers
        if column.numbers is not None and not numpy.isfinite(column.numbers).all():
            continue
        codes, counts = numpy.unique(values, return_counts=True)
        if len(codes) < 2 or _counts(column):
            continue
        if len(codes) <= MOST_CLASSES:
            common = codes[counts >= max(8, RARE * len(values))]
            hot = numpy.stack([values == code for code in common], 1).astype(numpy.float64) if len(common) > 1 else None
        else:
            ranks = column.numbers is not None and numpy.argsort(numpy.argsort(column.numbers))[:, None]
            hot = None if isinstance(ranks, bool) else ranks.astype(numpy.float64)
        if hot is not None:
            yield column.name, (hot - hot.mean(0)) / hot.std(0) / len(values)


def keys_of(table: Table) -> Iterator[tuple[str, list[str]]]:
    """Columns that name the rows: words or whole numbers, none of them twice."""
    for column in table.columns:
        words = column.words if column.numbers is None else column.spelled
        if words is None and column.numbers is not None and _whole(column.numbers):
            words = [f"{value:.0f}" for value in column.numbers]
        if words and column.kind != "digest" and len(set(words)) == len(words):
            yield column.name, words


def _ids(table: Table) -> Iterator[Order]:
    for column in table.columns:
        values = column.numbers
        if values is not None and _whole(values) and len(numpy.unique(values)) == len(values):
            yield values.astype(numpy.int64)


def _indices(table: Table) -> Iterator[Order]:
    """Columns that name a row of another file each, counted from 0 or from 1: the script may use them."""
    for values in _ids(table):
        for first in (0, 1):
            if numpy.array_equal(numpy.sort(values), numpy.arange(first, first + len(values))):
                yield values - first


def _features(nodes: Table, ids: Order) -> Iterator[tuple[str, Floats]]:
    """The arrays of a file, or all of its columns of numbers but the ids."""
    for name, array in nodes.arrays:
        vectors = row_vectors(array, whiten=False)
        if vectors is not None:
            yield name, vectors
    columns = [c.numbers for c in nodes.columns if c.numbers is not None and c.kind == "text"]
    columns = [c for c in columns if numpy.isfinite(c).all() and not numpy.array_equal(c, ids)]
    if columns:
        vectors = row_vectors(numpy.stack(columns, 1), whiten=False)
        if vectors is not None:
            yield "", vectors


def _counts(column: Values) -> bool:
    return column.numbers is not None and bool((numpy.diff(column.numbers) > 0).all())


def _whole(values: Floats) -> bool:
    return bool(numpy.isfinite(values).all() and (values == numpy.round(values)).all())
