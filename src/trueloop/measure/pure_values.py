"""Values of a column that have one label in all training rows, and several labels in other rows.

The mean of the labels of a group, written into each row of the group, is such a column: a mean of 0 or 1 says that all
labels of the group are the same, and the row's own label is one of them. Between these ends the share of a label grows
with the value: in proportion to it, because it is the value, or, where means of small groups are drawn to the mean of
all rows, less regularly.
"""

from typing import Final, NamedTuple

import torch
from torch import Tensor

__all__ = ["PureColumn", "pure_column"]

MOST_COLUMNS: Final = 64
GROUP: Final = 20  # rows with the same value
LEAST: Final = 40  # training rows in pure groups, for each label
NEW: Final = 20  # other rows with these values, for each label
CONTRARY: Final = 0.2  # of them: with a different label
SURE: Final = 30.0  # expected contrary rows in training, if it were as elsewhere: exp(-30) by chance
SHARE: Final = 0.1  # of all training rows
FREQUENT: Final = 4  # values with so many rows that the share of a label can be seen
MIXED: Final = (0.2, 0.8)  # share of a label at a value that has both
STRAIGHT: Final = 0.15  # distance of these shares from a line
GROWING: Final = 0.8  # or their correlation with the values: one value of a smoothed mean belongs to one group size


class PureColumn(NamedTuple):
    column: int
    rows: int  # training rows with a value that has one label
    values: int
    new_rows: int  # other rows with one of these values
    contrary: int  # of them: with a different label


def pure_column(rows: Tensor, labels: Tensor, new_rows: Tensor, new_labels: Tensor) -> PureColumn | None:
    """The first column whose values give both labels in training rows, without an exception, and do not in new ones."""
    if rows.ndim != 2 or rows.shape[1] > MOST_COLUMNS or len(torch.unique(labels)) != 2:
        return None
    found = (_pure(i, rows[:, i], labels, new_rows[:, i], new_labels) for i in range(rows.shape[1]))
    return next((column for column in found if column is not None), None)


def _pure(column: int, values: Tensor, labels: Tensor, new_values: Tensor, new_labels: Tensor) -> PureColumn | None:
    distinct, group, sizes = torch.unique(values, return_inverse=True, return_counts=True)
    if len(distinct) == len(values) or int(sizes.max()) < GROUP:
        return None
    ends = torch.unique(labels)
    shares = torch.zeros(len(distinct), dtype=torch.double).index_add(0, group, (labels == ends[1]).double()) / sizes
    frequent = sizes >= GROUP
    if not _grow_together(distinct[frequent].double(), shares[frequent]):
        return None
    totals = [0, 0, 0, 0]  # rows, values, new rows, contrary ones
    kinds = 0
    for share_of_second, label in enumerate(ends.tolist()):
        mine = frequent & (shares == share_of_second)
        count = int(sizes[mine].sum())
        new = new_labels[torch.isin(new_values, distinct[mine])]
        contrary = int((new != label).sum())
        share = contrary / max(1, len(new))
        if count < LEAST or len(new) < NEW:
            continue
        if share < CONTRARY or share * count < SURE:
            return None  # the value gives this label elsewhere too
        kinds += 1
        totals = [a + b for a, b in zip(totals, (count, int(mine.sum()), len(new), contrary), strict=True)]
    return PureColumn(column, *totals) if kinds >= 2 and totals[0] >= SHARE * len(values) else None


def _grow_together(values: Tensor, shares: Tensor) -> bool:
    """The share of a label rises with the values: these are means of labels, perhaps scaled or smoothed."""
    if len(values) < FREQUENT or not bool(((shares > MIXED[0]) & (shares < MIXED[1])).any()):
        return False
    x, y = values - values.mean(), shares - shares.mean()
    slope = float(x @ y) / float(x @ x)
    if slope <= 0:
        return False
    return bool((y - slope * x).abs().max() <= STRAIGHT) or float(x @ y) >= GROWING * float(x.norm() * y.norm())
