"""Columns that give a label away in one of two files."""

from typing import Any

import numpy
import pytest

from trueloop.measure.outcome_columns import leaks
from trueloop.measure.tables import Table, Values


def drawn(seed: int) -> numpy.random.Generator:
    return numpy.random.default_rng(seed)


def table(**columns: Any) -> Table:
    values = tuple(
        Values(key, None, value) if isinstance(value, list) else Values(key, numpy.asarray(value, dtype=float))
        for key, value in columns.items()
    )
    return Table("a.csv", values, len(values[0]), named=True)


def leaking(seed: int, *, filled: bool) -> Table:
    rng = drawn(seed)
    age, dose = rng.normal(size=600), rng.normal(size=600)
    died = (age + dose + rng.normal(size=600) > 0).astype(float)
    return table(age=age, dose=dose, code=died * 3 + rng.random(600) if filled else rng.random(600), died=died)


def test_a_column_that_gives_the_label_away_in_one_file() -> None:
    (found,) = leaks(leaking(1, filled=True), leaking(2, filled=False))
    assert (found.column, found.label) == ("code", "died")
    assert found.inside[1] < 0.15 < 0.6 < found.inside[0]


def test_a_column_with_one_relation_to_the_label_is_no_leak() -> None:
    assert not list(leaks(leaking(1, filled=True), leaking(2, filled=True)))
    assert not list(leaks(leaking(1, filled=False), leaking(2, filled=False)))
    other = leaking(2, filled=False)
    shuffled = [
        v if v.name != "died" else Values("died", drawn(3).permutation(numpy.asarray(v.numbers))) for v in other.columns
    ]
    # the label itself lost its rows: that is no column that was filled later
    assert not list(leaks(leaking(1, filled=True), Table("b.csv", tuple(shuffled), other.rows, named=True)))


def loans(seed: int, *, rows: int = 2500, calls: float = 0.0, default: float | None = None, late: bool = True) -> Table:
    """`calls`: how many a default causes. `late`: the label is known."""
    rng = drawn(seed)
    income, debt = rng.lognormal(10, 0.5, 3 * rows), rng.beta(2, 5, 3 * rows)
    failed = rng.random(3 * rows) < 1 / (1 + numpy.exp(-8 * (debt - 0.3) + numpy.log(income / 22000)))
    kept = numpy.arange(rows)
    if default is not None:  # of a file that was selected by its outcome
        kept = numpy.sort(numpy.concatenate([numpy.flatnonzero(failed)[: round(default * rows)],
                                             numpy.flatnonzero(~failed)[: rows - round(default * rows)]]))  # fmt: skip
    failed, income, debt = failed[kept], income[kept], debt[kept]
    contacts = rng.poisson(0.6, rows) + failed * rng.poisson(calls, rows)
    columns = {"loan_id": 1000 * seed + numpy.arange(rows), "income": income, "debt": debt, "contacts": contacts}
    return table(**columns, **({"failed": failed} if late else {}))


def test_a_column_that_is_as_in_one_class_where_the_label_is_not_known_yet() -> None:
    (found,) = leaks(loans(1, calls=5.0), loans(2, late=False))
    assert (found.column, found.label, found.labelled) == ("contacts", "failed", False)
    assert found.inside[0] > 0.8
    (turned,) = leaks(loans(2, late=False), loans(1, calls=5.0))
    assert turned.inside == found.inside[::-1]


@pytest.mark.parametrize(
    ("known", "new"),
    [
        (loans(1), loans(2, late=False)),
        (loans(1, calls=5.0), loans(2, calls=5.0, late=False)),
        (loans(1, calls=5.0), loans(2, calls=5.0, default=0.0, late=False)),  # a test that all new ones have passed
        (loans(1, calls=5.0, default=0.5), loans(2, calls=5.0, default=0.04, late=False)),  # cases and controls
        (loans(1, calls=1.0), loans(2, late=False)),  # some more: no class is given away
    ],
)
def test_files_to_be_predicted_that_look_alike(known: Table, new: Table) -> None:
    assert not list(leaks(known, new))
