"""How a column depends on others: the same in two files, the other way round, not at all in one, or rows later."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy
from numpy.typing import NDArray

from trueloop.measure.array_features import BESIDE
from trueloop.measure.correlation import correlation_of_arrays
from trueloop.measure.distributions import distance
from trueloop.measure.table_differences import Difference
from trueloop.measure.tables import Table

__all__ = [
    "Relation",
    "ShiftedTargets",
    "as_difference",
    "parts_by_group",
    "relations",
    "relations_of_files",
    "shifted_targets",
]

LEAST: Final = 80  # rows of each part
ENOUGH: Final = 250  # rows in which a relation that is there would show
MOST_ROWS: Final = 3000
MOST_COLUMNS: Final = 24
GROUPS: Final = 6  # parts of a file that a column names
RELATED: Final = 0.3  # correlation of a column with what a probe on the other columns says, inside of a part
STRONGLY: Final = 0.5
SURELY: Final = 0.7  # a relation that does not get lost with more noise
TURNED: Final = -0.15  # from one part to the other
CERTAIN: Final = 5.0  # standard errors, of as many rows as say something new: days of one month relate by chance
ELSEWHERE: Final = 0.75  # distance of two distributions (Kolmogorov-Smirnov) that hardly overlap
MEASURED: Final = 20  # values of a column that is no code
IN_CAMPS: Final = 0.8  # of the sister files
NOTHING: Final = 0.1
FEATURES: Final = 8  # columns of an array
SPREAD: Final = 2.0  # times smaller: a part that varies less shows less
SHIFTS: Final = (-2, -1, 1, 2)
FARTHEST: Final = 3  # rows by which the targets of a file are moved
INDEPENDENT: Final = 0.15  # correlation with the next row: rows of a series are related to their neighbors' targets
FEW_TARGETS: Final = 3  # columns of a file of targets
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
    comparable = _comparable(first, second, rows, others)
    if comparable is None:
        return
    names, first_rows, second_rows = comparable
    a, b = _scaled(first_rows, second_rows)
    same_spread = bool((numpy.abs(numpy.log(b.std(0) + 1e-9)) < numpy.log(SPREAD)).all())
    found = [
        _relation(name, a, b, index, same_spread and rows is None)
        for index, name in enumerate(names)
        if not name.startswith(BESIDE) and not _counts(a[:, index]) and not _counts(b[:, index])
    ]
    kept = [each for each in found if each is not None]
    apart = (first_rows, second_rows)
    kept = [x for x in kept if x.kind != "inverted" or not _is_elsewhere(*apart, names.index(x.column))]
    if any(each.kind == "inverted" and each.column.endswith("]") for each in kept) and _is_another_space(a, b):
        kept = [each for each in kept if each.kind != "inverted"]
    yield from kept


def _is_elsewhere(a: Floats, b: Floats, index: int) -> bool:
    """Whether a column, or the one that is turned against it most, hardly overlaps in the two parts: a curve may rise
    in one and fall in the other. An exchanged sign mirrors the values at zero."""
    turned = [-_correlation(a, i, index) * _correlation(b, i, index) for i in range(a.shape[1])]
    pairs = ((a[:, i], b[:, i]) for i in (index, int(numpy.argmax(turned))))
    return any(
        min(numpy.unique(x).size, numpy.unique(y).size) >= MEASURED and min(distance(x, y), distance(x, -y)) > ELSEWHERE
        for x, y in pairs
    )


def _correlation(part: Floats, column: int, other: int) -> float:
    return correlation_of_arrays(part[:, column], part[:, other])


def relations_of_files(first: Table, second: Table, sisters: list[Table]) -> list[Relation]:
    """Those of two of many files. Scenes, persons and seasons have relations of their own: a column that is turned in
    some files relates to the others as in one of the two files, and against the other one, in nearly all sisters."""
    return [
        each
        for each in relations(first, second)
        if each.kind != "inverted" or _is_turned_among(each.column, first, second, sisters)
    ]


def _is_turned_among(column: str, first: Table, second: Table, sisters: list[Table]) -> bool:
    camps = [_camp(column, sister, first, second) for sister in sisters]
    known = [camp for camp in camps if camp is not None]
    return sum(known) >= IN_CAMPS * len(known)


def _camp(column: str, sister: Table, first: Table, second: Table) -> bool | None:
    """None: too few rows."""
    one, other = (_transfer(column, sister, each) for each in (first, second))
    if one is None or other is None:
        return None
    return any(min(a) >= RELATED / 2 and max(b) <= TURNED / 2 for a, b in ((one, other), (other, one)))


def _transfer(column: str, table: Table, other: Table) -> tuple[float, float] | None:
    """How well a probe of each table predicts the column in the other one."""
    comparable = _comparable(table, other)
    if comparable is None or column not in comparable[0]:
        return None
    names, *raw = comparable
    a, b = _scaled(*raw)
    index = names.index(column)
    rest = [i for i in range(len(names)) if i != index]
    return _across(a[:, rest], a[:, index], b[:, rest], b[:, index])


def _comparable(
    first: Table, second: Table, rows: Rows | None = None, others: Rows | None = None
) -> tuple[list[str], Floats, Floats] | None:
    """The numbers that vary in both tables."""
    names = [c.name for c in first.columns if c.numbers is not None and c.name in second.names]
    names = [name for name in names if second.column(name).numbers is not None][:MOST_COLUMNS]
    if len(names) < 2:
        return None
    a, b = _matrix(first, names, rows), _matrix(second, names, others)
    if min(len(a), len(b)) < LEAST:
        return None
    moving = [i for i in range(len(names)) if a[:, i].std() > 0 and b[:, i].std() > 0]
    return [names[i] for i in moving], a[:, moving], b[:, moving]


def _scaled(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Around the mean of each part, in the spread of the first one."""
    scale = a.std(0)
    return numpy.clip((a - a.mean(0)) / scale, -5, 5), numpy.clip((b - b.mean(0)) / scale, -5, 5)


def _across(x: Floats, y: Floats, u: Floats, v: Floats) -> tuple[float, float]:
    """The correlations of what a probe of each part says about the other part."""
    return correlation_of_arrays(u @ _fit(x, y), v), correlation_of_arrays(x @ _fit(u, v), y)


def _is_another_space(a: Floats, b: Floats) -> bool:
    """Of the columns that follow from the others in both parts, half or more do so in a different way in each: they
    are features of two networks, and the sign of one of them says nothing."""
    if a.shape[1] < FEATURES:
        return False
    related = differing = 0
    for index in range(a.shape[1]):
        rest = [i for i in range(a.shape[1]) if i != index]
        x, y, u, v = a[:, rest], a[:, index], b[:, rest], b[:, index]
        inside = min(_crossed(x, y), _crossed(u, v))
        if inside >= RELATED:
            related += 1
            differing += max(_across(x, y, u, v)) < inside / 2
    return related > 0 and differing >= related / 2


def _relation(name: str, a: Floats, b: Floats, index: int, comparable: bool) -> Relation | None:
    rest = [i for i in range(a.shape[1]) if i != index]
    if not rest:
        return None
    x, y, u, v = a[:, rest], a[:, index], b[:, rest], b[:, index]
    inside = (_crossed(x, y), _crossed(u, v))
    if max(inside) < RELATED:
        return None
    across = _across(x, y, u, v)
    if min(inside) >= max(RELATED, _by_chance(x, y), _by_chance(u, v)) and max(across) <= TURNED:
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


class ShiftedTargets(NamedTuple):
    """A column of a file whose row n belongs to row n + `by` of the other file."""

    column: str
    by: int
    here: float  # correlation with a linear probe on the columns of the other file, cross-validated
    moved: float  # the same, after moving


def shifted_targets(inputs: Table, targets: Table) -> ShiftedTargets | None:
    """Of two files with as many rows, in which rows are independent: targets that belong to a different row."""
    if inputs.rows != targets.rows or inputs.rows < ENOUGH or not (inputs.complete and targets.complete):
        return None
    measured = [(c.name, c.numbers) for c in targets.columns if c.numbers is not None and _is_measured(c.numbers)]
    columns = [c.numbers for c in inputs.columns if c.numbers is not None and _is_measured(c.numbers)][:MOST_COLUMNS]
    if not columns or not 1 <= len(measured) <= FEW_TARGETS:
        return None
    x = numpy.stack(columns, 1)
    x = numpy.clip((x - x.mean(0)) / x.std(0), -5, 5)[:MOST_ROWS]
    for name, values in measured:
        y = values[:MOST_ROWS]
        here = _crossed(x, y)
        if here > INDEPENDENT:
            continue
        moved = {by: _crossed(*_moved(x, y, by)) for by in range(-FARTHEST, FARTHEST + 1) if by}
        best = max(moved, key=lambda by: moved[by])
        if moved[best] >= STRONGLY and all(moved[by] <= INDEPENDENT for by in moved if by != best):
            return ShiftedTargets(name, best, here, moved[best])
    return None


def _is_measured(values: Floats) -> bool:
    """It varies, and its rows are independent: no counter, and no series."""
    if not numpy.isfinite(values).all() or values.std() == 0 or _counts(values):
        return False
    return abs(correlation_of_arrays(values[1:], values[:-1])) < INDEPENDENT


def _moved(x: Floats, y: Floats, by: int) -> tuple[Floats, Floats]:
    """Row n of the targets beside row n + by of the inputs."""
    return (x[by:], y[: len(y) - by]) if by > 0 else (x[:by], y[-by:])


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


def _by_chance(x: Floats, y: Floats) -> float:
    """The correlation of a probe that chance may give: rows that are like those before them count for less."""
    alike = max(0.0, _with_next(x @ _fit(x, y))) * max(0.0, _with_next(y))
    rows = len(y) * (1 - alike) / (1 + alike)
    return float(CERTAIN / max(1.0, rows) ** 0.5)


def _with_next(values: Floats) -> float:
    return correlation_of_arrays(values[:-1], values[1:])


def _crossed(x: Floats, y: Floats) -> float:
    half = numpy.arange(len(x)) % 2 == 0
    parts = ((half, ~half), (~half, half))
    return sum(correlation_of_arrays(x[there] @ _fit(x[here], y[here]), y[there]) for here, there in parts) / 2


def _counts(values: Floats) -> bool:
    steps = numpy.diff(values)
    return bool((steps >= 0).all() or (steps <= 0).all())


def as_difference(found: Relation) -> Difference:
    inside = f"{max(found.inside):.2f}"
    if found.kind == "inverted":
        return Difference("inverted", found.column, f"{min(found.inside):.2f}", f"{max(found.across):.2f}")
    first = found.inside[0] < found.inside[1]  # the file in which nothing gives the column
    here, there = (f"{min(found.inside):.2f}", inside) if first else (inside, f"{min(found.inside):.2f}")
    return Difference("unrelated", found.column, here, there, float(found.shift))
