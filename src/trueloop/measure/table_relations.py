"""How a column depends on the other ones: the same in two files, the other way round, or not at all in one of them."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy
from numpy.typing import NDArray

from trueloop.measure.tables import Table

__all__ = ["Relation", "parts_by_group", "relations"]

LEAST: Final = 80  # rows of each part
ENOUGH: Final = 250  # rows in which a relation that is there would show
MOST_ROWS: Final = 3000
MOST_COLUMNS: Final = 24
GROUPS: Final = 6  # parts of a file that a column names
RELATED: Final = 0.3  # correlation of a column with what a probe on the other columns says, inside of a part
STRONGLY: Final = 0.5
SURELY: Final = 0.7  # a relation that does not get lost with more noise
TURNED: Final = -0.15  # from one part to the other
NOTHING: Final = 0.1
SPREAD: Final = 2.0  # times smaller: a part that varies less shows less
SHIFTS: Final = (-2, -1, 1, 2)
RIDGE: Final = 1e-2

Floats = NDArray[numpy.float64]
Rows = NDArray[numpy.int64]


class Relation(NamedTuple):
    kind: str  # inverted, unrelated
    column: str
    inside: tuple[float, float]  # correlation with a linear probe on the other columns, cross-validated, in each part
    across: tuple[float, float]  # of the probe of one part on the other
    shift: int = 0  # unrelated: rows by which the column is moved


class Part(NamedTuple):
    column: str
    value: str
    rows: Rows


def parts_by_group(table: Table) -> Iterator[list[Part]]:
    """The rows of a table by the values of each column of words that has a few."""
    for column in table.columns:
        if column.words is None:
            continue
        words = numpy.array(column.words)
        values, counts = numpy.unique(words, return_counts=True)
        if 2 <= len(values) <= GROUPS and counts.min() >= LEAST:
            yield [Part(column.name, str(value), numpy.flatnonzero(words == value)) for value in values]


def relations(first: Table, second: Table, rows: Rows | None = None, others: Rows | None = None) -> Iterator[Relation]:
    """Columns whose relation to the others differs between two tables, or between parts of one table."""
    names = [c.name for c in first.columns if c.numbers is not None and c.name in second.names]
    names = [name for name in names if second.column(name).numbers is not None][:MOST_COLUMNS]
    if len(names) < 2:
        return
    a, b = _matrix(first, names, rows), _matrix(second, names, others)
    if min(len(a), len(b)) < LEAST:
        return
    moving = [i for i in range(len(names)) if a[:, i].std() > 0 and b[:, i].std() > 0]
    a, b, names = a[:, moving], b[:, moving], [names[i] for i in moving]
    scale = a.std(0)
    a, b = (numpy.clip((part - part.mean(0)) / scale, -5, 5) for part in (a, b))
    same_spread = bool((numpy.abs(numpy.log(b.std(0) + 1e-9)) < numpy.log(SPREAD)).all())
    for index, name in enumerate(names):
        if not _counts(a[:, index]) and not _counts(b[:, index]):
            found = _relation(name, a, b, index, same_spread and rows is None)
            if found is not None:
                yield found


def _relation(name: str, a: Floats, b: Floats, index: int, comparable: bool) -> Relation | None:
    rest = [i for i in range(a.shape[1]) if i != index]
    if not rest:
        return None
    x, y, u, v = a[:, rest], a[:, index], b[:, rest], b[:, index]
    inside = (_crossed(x, y), _crossed(u, v))
    if max(inside) < RELATED:
        return None
    across = (_correlation(u @ _fit(x, y), v), _correlation(x @ _fit(u, v), y))
    if min(inside) >= RELATED and max(across) <= TURNED:
        return Relation("inverted", name, inside, across)
    if not comparable or max(inside) < STRONGLY or min(inside) > NOTHING or min(len(a), len(b)) < ENOUGH:
        return None
    x, y, known = (x, y, across[1]) if inside[0] < inside[1] else (u, v, across[0])
    if abs(known) > 1.5 * NOTHING:
        return None
    moved = {shift: _crossed(x, numpy.roll(y, shift)) for shift in SHIFTS}
    best = max(moved, key=lambda shift: moved[shift])
    if moved[best] >= RELATED:
        return Relation("unrelated", name, inside, across, best)
    return Relation("unrelated", name, inside, across) if max(inside) >= SURELY else None


def _matrix(table: Table, names: list[str], rows: Rows | None) -> Floats:
    columns = [table.column(name).numbers for name in names]
    matrix = numpy.stack([column for column in columns if column is not None], 1)
    matrix = matrix if rows is None else matrix[rows]
    return matrix[numpy.isfinite(matrix).all(1)][:MOST_ROWS]


def _fit(x: Floats, y: Floats) -> Floats:
    centred = x - x.mean(0)
    squares = centred.T @ centred + RIDGE * len(x) * numpy.eye(x.shape[1])
    weights: Floats = numpy.linalg.solve(squares, centred.T @ (y - y.mean()))
    return weights


def _crossed(x: Floats, y: Floats) -> float:
    half = numpy.arange(len(x)) % 2 == 0
    parts = ((half, ~half), (~half, half))
    return sum(_correlation(x[there] @ _fit(x[here], y[here]), y[there]) for here, there in parts) / 2


def _correlation(a: Floats, b: Floats) -> float:
    if a.std() == 0 or b.std() == 0:
        return 0.0
    return float(numpy.corrcoef(a, b)[0, 1])


def _counts(values: Floats) -> bool:
    steps = numpy.diff(values)
    return bool((steps >= 0).all() or (steps <= 0).all())
