"""Rows of one patient, speaker or animal for training and for evaluation, where knowing the group gives the label.

A group on both sides does harm only if the label belongs to the group and the inputs show which group a row is from.
Both are measured: labels are constant in groups although they vary between them, and the training row that is nearest
to a row for evaluation is from its own group far above chance.
"""

from typing import Final, NamedTuple

import numpy
from numpy.typing import NDArray

from trueloop.measure.near_copies import distances, features
from trueloop.measure.tables import Table, Values
from trueloop.usercode.names import words_of

__all__ = ["SharedGroups", "shared_groups"]

LEAST_GROUPS: Final = 15
ROWS_PER_GROUP: Final = 2.0
SHARED: Final = 0.5  # of the rows for evaluation are from groups of the training rows
MOST_LABELS: Final = 10
COUNTS: Final = 0.98  # of the rows have a different number in their group
GROUPS_PER_LABEL: Final = 4.0
CONSTANT: Final = 0.9  # of the rows have the label that is most frequent in their group
MIXED: Final = 0.25  # of the rows that would not if groups were drawn at random do not
OWN: Final = 0.5  # of the nearest rows are of the own group
ABOVE_CHANCE: Final = 5.0
IN_ORDER: Final = 0.9  # of the groups
SOME: Final = 50  # groups
SAMPLED: Final = 400
MOST_ROWS: Final = 6000
_GROUPS: Final = frozenset(
    ("patient", "patients", "subject", "subjects", "subj", "participant", "person", "speaker", "speakers", "writer",
     "donor", "volunteer", "proband", "patientin", "sprecher", "lesion", "slide", "specimen", "biopsy", "recording")
)  # fmt: skip
"""Words in the name of a column that stands for somebody, or for a thing that is seen only once. Not shops, products,
stations, users or devices: the model meets them again. Not animals, which may be species."""
_LABELS: Final = frozenset(("label", "labels", "target", "targets", "y", "class", "outcome", "diagnosis", "disease"))
_SPLITS: Final = frozenset(("split", "splits", "fold", "folds", "part", "subset", "set"))

Cells = NDArray[numpy.str_]
Floats = NDArray[numpy.float64]


class SharedGroups(NamedTuple):
    column: str
    groups: int  # on both sides
    rows: int  # for evaluation, of these groups
    label: str
    constant: float  # share of the rows that have the label of their group
    own: float  # share of the rows for evaluation whose nearest training row is from their group
    chance: float


def shared_groups(training: Table, other: Table) -> SharedGroups | None:
    for column in training.columns:
        if column.name not in other.names or not _names_groups(column):
            continue
        here, there = _cells(column), _cells(other.column(column.name))
        shared = numpy.isin(there, here)
        groups = numpy.unique(here)
        if len(groups) < LEAST_GROUPS or len(here) < ROWS_PER_GROUP * len(groups) or shared.mean() < SHARED:
            continue
        if _on_purpose(training, other, here, there):
            continue
        label = _label(training, column.name, here)
        if label is None:
            continue
        own, chance = _nearest(training, other, here, there, label[0])
        if own >= max(OWN, ABOVE_CHANCE * chance):
            both = len(numpy.unique(there[shared]))
            return SharedGroups(column.name, both, int(shared.sum()), *label, own, chance)
    return None


def _names_groups(column: Values) -> bool:
    """By its name, if no cell has a space: the subject of a mail has."""
    if column.kind == "digest" or _GROUPS.isdisjoint(words_of(column.name)):
        return False
    return not any(" " in cell for cell in column.words or ())


def _cells(column: Values) -> Cells:
    return numpy.array(column.words if column.numbers is None else column.numbers.astype(str))


def _label(table: Table, group: str, groups: Cells) -> tuple[str, float] | None:
    """A column of a few classes that is the same in all rows of a group; None if one of them is not, because it may be
    the label. Columns that are named so come first."""
    few = {c.name: _cells(c) for c in table.columns if c.name != group and _is_code(c)}
    few = {name: cells for name, cells in few.items() if not _counts_within(cells, groups)}
    named = {name: cells for name, cells in few.items() if not _LABELS.isdisjoint(words_of(name))}
    constant = {name: _purity(cells, groups) for name, cells in (named or few).items()}
    random = numpy.random.default_rng(0).permutation(groups)
    for name, share in constant.items():
        labels = (named or few)[name]
        if share < CONSTANT or 1 - share > MIXED * (1 - _purity(labels, random)):
            return None
        if len(numpy.unique(groups)) < GROUPS_PER_LABEL * len(numpy.unique(labels)):
            return None
    return next(iter(constant.items()), None)


def _is_code(column: Values) -> bool:
    if column.kind == "digest" or "[" in column.name or not _SPLITS.isdisjoint(words_of(column.name)):
        return False
    values = column.numbers
    if values is not None and not bool((numpy.isfinite(values) & (values == numpy.round(values))).all()):
        return False
    return 2 <= len(numpy.unique(_cells(column))) <= MOST_LABELS


def _counts_within(cells: Cells, groups: Cells) -> bool:
    """Whether a column numbers the rows of each group."""
    pairs = numpy.unique(numpy.stack([groups, cells]), axis=1).shape[1]
    return bool(pairs >= COUNTS * len(cells))


def _is_alias(cells: Cells, groups: Cells) -> bool:
    """One value for each group: its number, or a different name of it."""
    count = len(numpy.unique(groups))
    return len(numpy.unique(cells)) == count and numpy.unique(numpy.stack([groups, cells]), axis=1).shape[1] == count


def _purity(labels: Cells, groups: Cells) -> float:
    """Share of the rows that have the most frequent label of their group."""
    _, rows = numpy.unique(groups, return_inverse=True)
    _, codes = numpy.unique(labels, return_inverse=True)
    counts = numpy.zeros((rows.max() + 1, codes.max() + 1))
    numpy.add.at(counts, (rows, codes), 1)
    several = counts.sum(1) > 1
    return float(counts[several].max(1).sum() / max(1, counts[several].sum()))


def _on_purpose(training: Table, other: Table, here: Cells, there: Cells) -> bool:
    """Whether each group gives as many rows for evaluation, or its last ones: forecasts for known patients."""
    both = numpy.intersect1d(here, there)
    counts = numpy.unique(there[numpy.isin(there, both)], return_counts=True)[1]
    if len(both) < 2 or (counts == counts[0]).all():
        return True
    some = both[:: -(-len(both) // SOME)]
    for column in training.columns:
        if column.name in other.names and column.kind != "digest":
            before, after = _ranks(column, other.column(column.name))
            later = [after[there == group].min() > before[here == group].max() for group in some]
            if numpy.mean(later) >= IN_ORDER:
                return True
    return False


def _ranks(column: Values, other: Values) -> tuple[Floats, Floats]:
    """Of the cells of both, in one order: of numbers or of words."""
    if column.numbers is not None and other.numbers is not None:
        return column.numbers, other.numbers
    cells = numpy.concatenate([_cells(column), _cells(other)])
    ranks = numpy.unique(cells, return_inverse=True)[1].astype(numpy.float64)
    return ranks[: len(column)], ranks[len(column) :]


def _nearest(training: Table, other: Table, here: Cells, there: Cells, label: str) -> tuple[float, float]:
    """Share of the rows for evaluation, of groups on both sides, whose nearest training row is from their group."""
    ids = {c.name for c in training.columns if c.numbers is not None and _is_alias(_cells(c), here)}
    kept = [tuple(c for c in table.columns if c.name != label and c.name not in ids) for table in (training, other)]
    known, asked = (
        Table(t.path, columns, t.rows, t.named, arrays=t.arrays)
        for t, columns in zip((training, other), kept, strict=True)
    )
    pair = features(known, asked)
    if pair is None:
        return 0.0, 1.0
    rows = numpy.flatnonzero(numpy.isin(there, here[:MOST_ROWS]))
    rows = rows[:: -(-len(rows) // SAMPLED) or 1]
    if len(rows) < LEAST_GROUPS:
        return 0.0, 1.0
    nearest = distances(pair[1][rows], pair[0][:MOST_ROWS]).argmin(1)
    chance = numpy.mean([(here[:MOST_ROWS] == group).mean() for group in there[rows]])
    return float((here[nearest] == there[rows]).mean()), float(chance)
