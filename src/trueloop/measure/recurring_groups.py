"""Rows that were recorded together, without a name: several measured columns are equal in them, always the same ones.

The age, the height and the resting pulse of a patient come again in each of his rows, to the last digit, and never in a
row of somebody else. Two measured columns that are equal in the same pairs of rows show that there are such groups; a
split that was drawn row by row shows in the numbers of rows that it took from each.
"""

from typing import Final, NamedTuple

import numpy
from numpy.typing import NDArray

__all__ = ["RecurringGroups", "recurring_groups"]

LEAST_GROUPS: Final = 60  # with several rows for training
LEAST_ROWS: Final = 150  # for evaluation
LARGEST: Final = 20.0  # rows of a group: larger ones are stations, shops or users, which a model meets again
SHARED: Final = 0.6  # of the rows for evaluation are from groups of the training rows
TOGETHER: Final = 0.9  # of the pairs with equal cells in one column have them in another; rounding makes others
SEVERAL: Final = 3  # columns: one value may come again by rounding, and one column may be computed from another
MOST_COLUMNS: Final = 64
CROSSING: Final = 0.5  # of the groups of a column meet several groups
SPREAD: Final = 0.5  # variance of the rows taken from each group, over that of a draw row by row
PAIRS: Final = 0.35  # of the pairs of rows that are expected from a group if each row is drawn for itself
LEAST_PAIRS: Final = 12
LATER: Final = 0.08  # distance from 1/2 of the share of pairs in which the row for evaluation is larger
SIGMAS: Final = 5.0
ALIKE: Final = 0.15  # correlation of what a probe leaves over, in two rows of one group
NEIGHBORS: Final = 8
RIDGE: Final = 1e-2
FOLDS: Final = 5
MOST_PROBED: Final = 2000

Floats = NDArray[numpy.float64]
Labels = NDArray[numpy.int64]


class RecurringGroups(NamedTuple):
    columns: int  # equal in all rows of a group
    groups: int  # on both sides
    rows: int  # for evaluation, of these groups
    others: int  # for evaluation
    size: float  # rows for training of a group, in the mean
    alike: float  # correlation of what a probe, fitted to other groups, leaves over in two rows of one group
    certain: float  # the same in standard errors


def recurring_groups(rows: Floats, targets: Floats, others: Floats) -> RecurringGroups | None:
    """Of training rows with their targets, beside evaluated rows, which are not among them."""
    both = numpy.concatenate([rows, others])
    if len(others) < LEAST_ROWS or both.shape[1] < SEVERAL + 1 or not numpy.isfinite(both).all():
        return None
    columns, labels = _groups(both)
    if labels is None or not 2 <= len(columns) < both.shape[1]:
        return None
    here, there = labels[: len(rows)], labels[len(rows) :]
    counts = numpy.bincount(here, minlength=labels.max() + 1)
    known = counts[there] > 0
    size = float(counts[counts > 0].mean())
    if (counts > 1).sum() < LEAST_GROUPS or size > LARGEST or known.mean() < SHARED:
        return None
    rest = [i for i in range(both.shape[1]) if i not in columns and both[:, i].std() > 0]
    if not rest or _crosses(both, labels, rest) or not _drawn_by_row(here, there):
        return None
    if _later(rows[:, rest], others[:, rest], here, there):
        return None
    alike, pairs = _left_over(rows, targets, here)
    certain = alike * pairs**0.5
    if alike < ALIKE or certain < SIGMAS:
        return None
    shared = len(numpy.unique(there[known]))
    return RecurringGroups(len(columns), shared, int(known.sum()), len(others), size, alike, certain)


def _groups(rows: Floats) -> tuple[list[int], Labels | None]:
    """The columns that are equal in the same pairs of rows, and the number of the group of each row."""
    many = []
    for index in range(min(rows.shape[1], MOST_COLUMNS)):
        count = len(numpy.unique(rows[:, index]))
        if LEAST_GROUPS <= count <= len(rows) / 1.5:
            many.append((count, index))
    if len(many) < SEVERAL:
        return [], None
    for _, anchor in sorted(many, reverse=True)[:4]:
        order = numpy.argsort(rows[:, anchor], kind="stable")
        equal = rows[order[1:], anchor] == rows[order[:-1], anchor]
        one, other = order[1:][equal], order[:-1][equal]
        same = [i for i in range(rows.shape[1]) if (rows[one, i] == rows[other, i]).mean() >= TOGETHER]
        exact = [i for _, i in many if i in same and _is_as_fine(rows, anchor, i)]
        if len(exact) >= SEVERAL and _is_continuous(rows[:, anchor]):
            _, labels = numpy.unique(rows[:, exact[:SEVERAL]], axis=0, return_inverse=True)
            return same, labels.reshape(-1).astype(numpy.int64)
    return [], None


def _is_as_fine(rows: Floats, anchor: int, index: int) -> bool:
    """Whether rows with equal cells in this column have them in the other one too."""
    order = numpy.argsort(rows[:, index], kind="stable")
    equal = rows[order[1:], index] == rows[order[:-1], index]
    pairs = rows[order[1:], anchor][equal] == rows[order[:-1], anchor][equal]
    return bool(equal.any() and pairs.mean() >= TOGETHER)


def _is_continuous(values: Floats) -> bool:
    """Measured numbers, whose distances differ: not a number of the row or of the group."""
    steps = numpy.diff(numpy.unique(values))
    return bool(len(steps) and numpy.median(numpy.abs(steps - numpy.median(steps))) > 0.1 * numpy.median(steps))


def _crosses(rows: Floats, labels: Labels, rest: list[int]) -> bool:
    """Whether further columns form groups too, each of which meets several of the first: pairs of users and items."""
    columns, others = _groups(rows[:, rest])
    if others is None or len(columns) < 2:
        return False
    pairs = numpy.unique(numpy.stack([others, labels]), axis=1)
    return bool((numpy.bincount(pairs[0]) > 1).mean() > CROSSING)


def _drawn_by_row(here: Labels, there: Labels) -> bool:
    """Whether the rows for evaluation were drawn without regard to the groups: not as many from each."""
    size = max(here.max(), there.max()) + 1
    taken, total = (numpy.bincount(each, minlength=size) for each in (there, numpy.concatenate([here, there])))
    taken, total = taken[total > 1], total[total > 1]
    share = taken.sum() / total.sum()
    expected = float((total * (total - 1) / 2).sum() * share**2)
    pairs = float((taken * (taken - 1) / 2).sum())
    spread = float(((taken - total * share) ** 2).sum() / (total * share * (1 - share)).sum())
    return expected >= LEAST_PAIRS and pairs >= PAIRS * expected and SPREAD <= spread <= 1 / SPREAD


def _later(rows: Floats, others: Floats, here: Labels, there: Labels) -> bool:
    """Whether the rows for evaluation have larger, or smaller, values than those for training of their group."""
    order = numpy.argsort(here, kind="stable")
    starts = numpy.searchsorted(here[order], there)
    inside = starts < len(order)
    inside[inside] = here[order[starts[inside]]] == there[inside]
    mates = rows[order[starts[inside]]]
    mine = others[inside]
    different = mine != mates
    counts = different.sum(0)
    larger = ((mine > mates) & different).sum(0) / numpy.maximum(1, counts)
    limit = numpy.maximum(LATER, SIGMAS * 0.5 / numpy.sqrt(numpy.maximum(1, counts)))
    return bool((numpy.abs(larger - 0.5)[counts > 0] > limit[counts > 0]).any())


def _left_over(rows: Floats, targets: Floats, groups: Labels) -> tuple[float, int]:
    """What a probe that was fitted to other groups leaves over: its correlation in pairs of rows of one group."""
    step = -(-len(rows) // MOST_PROBED)
    chosen = numpy.isin(groups, numpy.unique(groups)[::step])
    x, y, groups = rows[chosen], targets[chosen].astype(numpy.float64), groups[chosen]
    scale = x.std(0)
    x = numpy.clip((x - x.mean(0))[:, scale > 0] / scale[scale > 0], -5, 5)
    left = numpy.zeros(len(y))
    for fold in range(FOLDS):
        held = groups % FOLDS == fold
        if held.all() or not held.any():
            return 0.0, 0
        left[held] = y[held] - _probe(x[~held], y[~held], x[held])
    order = numpy.argsort(groups, kind="stable")
    same = groups[order[1:]] == groups[order[:-1]]
    one, other = left[order[1:]][same], left[order[:-1]][same]
    if len(one) < LEAST_GROUPS or not one.std() or not other.std():
        return 0.0, 0
    return float(numpy.corrcoef(one, other)[0, 1]), len(one)


def _probe(x: Floats, y: Floats, asked: Floats) -> Floats:
    """Ridge regression, and the mean of what it leaves over in the nearest rows."""
    center = x.mean(0)
    squares = (x - center).T @ (x - center) + RIDGE * len(x) * numpy.eye(x.shape[1])
    weights = numpy.linalg.solve(squares, (x - center).T @ (y - y.mean()))
    rest = y - y.mean() - (x - center) @ weights
    apart = (asked**2).sum(1)[:, None] + (x**2).sum(1) - 2 * asked @ x.T
    nearest = numpy.argpartition(apart, NEIGHBORS, axis=1)[:, :NEIGHBORS]
    found: Floats = y.mean() + (asked - center) @ weights + 0.5 * rest[nearest].mean(1)
    return found
