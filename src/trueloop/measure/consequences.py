"""A count that follows from the label, in a table whose other columns lead to it.

Causes of an outcome know nothing of one another, but they do once the outcome is given: a loan that was not paid back
although the income is high probably had a high debt. A column that was counted after the outcome is the opposite: it is
related to what the causes predict, because the outcome is, and no longer is once the outcome is given. Tables of
measurements of a state (of a machine, of a patient) have no such two kinds of columns: all of theirs follow from it.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy
from numpy.typing import NDArray

from trueloop.measure.correlation import correlation_of_arrays, ranks
from trueloop.measure.tables import Table

__all__ = ["Consequence", "consequences"]

LEAST: Final = 600  # rows
LEAST_OF_A_CLASS: Final = 100
MOST_ROWS: Final = 8000
MOST_COLUMNS: Final = 24
MOST_WORDS: Final = 12  # of a column
COUNTED: Final = (4, 40)  # values of a count
GIVES: Final = 0.8  # area under the ROC curve of the count
BEFORE: Final = 0.53  # of a cause
RELATED: Final = 8.0  # standard errors: correlation of the count with what the causes predict
GIVEN: Final = 0.3  # of that, at most, once the outcome is given
EXOGENOUS: Final = 3.0  # standard errors: correlation of a cause with what the other causes predict
DEPENDENT: Final = 4.0  # standard errors by which causes oppose one another once the outcome is given
LEAST_CAUSES: Final = 3
SELDOM: Final = 0.15  # of the rows with the outcome have the lowest count
OFTEN: Final = 0.25  # of those without
RIDGE: Final = 1e-2

Floats = NDArray[numpy.float64]


class Consequence(NamedTuple):
    column: str
    label: str
    rows: int
    area: float  # under the ROC curve of the column alone
    others: float  # of the other columns together
    related: float  # correlation of the column with what the other columns predict
    given: float  # the same inside of the classes
    causes: int
    opposed: float  # standard errors: how the causes oppose one another inside of the classes


def consequences(table: Table) -> Iterator[Consequence]:
    numbers = _numbers(table)
    for label, y in numbers.items():
        if set(numpy.unique(y)) != {0.0, 1.0} or min(y.sum(), (1 - y).sum()) < LEAST_OF_A_CLASS:
            continue
        for name, values in numbers.items():
            if name != label and _is_counted(values, y):
                rest = {key: other for key, other in numbers.items() if key not in (name, label)}
                found = _consequence((name, values), (label, y), rest | _shares(table, y))
                if found is not None:
                    yield found


def _numbers(table: Table) -> dict[str, Floats]:
    found: dict[str, Floats] = {}
    for column in table.columns[:MOST_COLUMNS] if table.rows >= LEAST and table.named and not table.lines else ():
        if column.numbers is not None and not column.name.endswith("]"):
            values = column.numbers[:MOST_ROWS]
            if numpy.isfinite(values).all() and values.std() > 0:
                found[column.name] = values
    return found


def _shares(table: Table, label: Floats) -> dict[str, Floats]:
    """Columns of words, each word as the share of the label in its rows."""
    found: dict[str, Floats] = {}
    for column in table.columns[:MOST_COLUMNS]:
        if column.words is not None and column.kind != "digest" and 2 <= len(set(column.words)) <= MOST_WORDS:
            codes = numpy.unique(column.words[: len(label)], return_inverse=True)[1]
            found[column.name] = (numpy.bincount(codes, label) / numpy.bincount(codes))[codes]
    return {name: values for name, values in found.items() if values.std() > 0}


def _is_counted(values: Floats, label: Floats) -> bool:
    """Whole numbers, of which the rows with one label seldom have the lowest, and those without it often."""
    if not COUNTED[0] <= len(numpy.unique(values)) <= COUNTED[1] or bool((values != numpy.round(values)).any()):
        return False
    lowest = values == values.min()
    if lowest[label == 1].mean() > SELDOM or lowest[label == 0].mean() < OFTEN:
        return False
    return _area(values, label) >= GIVES


def _consequence(count: tuple[str, Floats], label: tuple[str, Floats], rest: dict[str, Floats]) -> Consequence | None:
    if len(rest) < LEAST_CAUSES:
        return None
    y, scale = label[1], len(label[1]) ** 0.5
    others = [_normal(values) for values in rest.values()]
    column, score = _normal(count[1]), _predicted(others, y)
    related, given = correlation_of_arrays(column, score), correlation_of_arrays(_inside(column, y), _inside(score, y))
    areas = _area(count[1], y), _area(score, y)
    if related * scale < RELATED or abs(given) > GIVEN * related or areas[1] > areas[0]:
        return None
    opposed = [
        correlation_of_arrays(_inside(one, y), _inside(score, y)) * scale
        for one, score in _each_beside_the_rest(_without_measurements(others, y), y)
        if abs(correlation_of_arrays(one, score)) * scale <= EXOGENOUS
    ]
    total = -sum(opposed) / (2 * max(1, len(opposed))) ** 0.5
    if len(opposed) < LEAST_CAUSES or total < DEPENDENT:
        return None
    return Consequence(count[0], label[0], len(y), *areas, related, given, len(opposed), total)


def _without_measurements(columns: list[Floats], label: Floats) -> list[Floats]:
    """Without columns that measure the state that the others lead to, and that still do once the outcome is given: a
    column that tells the outcome alone is not one more of these."""
    kept, scale = list(columns), len(label) ** 0.5
    while len(kept) > LEAST_CAUSES:
        rest = [_predicted(kept[:place] + kept[place + 1 :], label) for place in range(len(kept))]
        tied = [abs(correlation_of_arrays(one, score)) * scale for one, score in zip(kept, rest, strict=True)]
        place = int(numpy.argmax(tied))
        inside = abs(correlation_of_arrays(_inside(kept[place], label), _inside(rest[place], label))) * scale
        if tied[place] < RELATED or inside < RELATED:
            break
        del kept[place]
    return kept


def _each_beside_the_rest(columns: list[Floats], label: Floats) -> Iterator[tuple[Floats, Floats]]:
    """Each column that says something, in the direction of the label, with what the others predict."""
    for index, values in enumerate(columns):
        area = _area(values, label)
        if max(area, 1 - area) >= BEFORE:
            score = _predicted([other for place, other in enumerate(columns) if place != index], label)
            yield (values if area > 0.5 else -values), score


def _predicted(columns: list[Floats], label: Floats) -> Floats:
    """By a probe that is fitted to the other half of the rows."""
    x = numpy.stack(columns, 1)
    half = numpy.arange(len(x)) % 2 == 0
    found = numpy.empty(len(x))
    for here in (half, ~half):
        squares = x[here].T @ x[here] + RIDGE * len(x) * numpy.eye(x.shape[1])
        found[~here] = x[~here] @ numpy.linalg.solve(squares, x[here].T @ (label[here] - label.mean()))
    return found


def _normal(values: Floats) -> Floats:
    """The ranks, in one scale."""
    ordered = ranks(values)
    found: Floats = (ordered - ordered.mean()) / ordered.std()
    return found


def _inside(values: Floats, label: Floats) -> Floats:
    found = values.copy()
    for one in (0.0, 1.0):
        mine = found[label == one]
        found[label == one] = (mine - mine.mean()) / max(1e-12, float(mine.std()))
    return found


def _area(values: Floats, label: Floats) -> float:
    positive = float(label.sum())
    total = float(ranks(values)[label == 1].sum())
    return (total - positive * (positive + 1) / 2) / (positive * (len(label) - positive))
