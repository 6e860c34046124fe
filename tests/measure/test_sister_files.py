"""Factors between files that are no units: sister files with levels of their own, and other populations."""

from __future__ import annotations

import math
from typing import Any

import numpy
import pytest

from trueloop.measure.sister_files import standing_out
from trueloop.measure.table_differences import differences
from trueloop.measure.tables import Table, Values


def table(path: str, **columns: Any) -> Table:
    values = tuple(Values(key, numpy.asarray(value, dtype=float)) for key, value in columns.items())
    return Table(path, values, len(values[0]), named=True)


def drawn(seed: int, level: float, rows: int = 300) -> Any:
    return numpy.exp(numpy.random.default_rng(seed).normal(math.log(level), 0.2, rows))


def named(first: Table, second: Table, *others: Table) -> list[str]:
    found = standing_out(differences(first, second), first, second, [first, second, *others])
    return [each.column for each in found]


def files(levels: list[float], name: str = "wear{}.npy") -> list[Table]:
    return [table(name.format(index), wear=drawn(index, level)) for index, level in enumerate(levels)]


def test_one_file_of_many_in_another_unit() -> None:
    assert named(*files([1.0, 2.54, 1.05, 0.95, 2.5])) == ["wear"]
    train, valid = table("train.npy", wear=drawn(0, 1.0)), table("valid.npy", wear=drawn(1, 2.54))
    assert named(train, valid) == ["wear"]


def test_levels_that_differ_from_file_to_file() -> None:
    assert differences(*files([1.0, 2.54]))
    assert not named(*files([1.0, 2.54, 1.6, 0.7, 3.3, 1.2]))
    assert not named(*files([1.0, 2.54]))  # two patients: nothing says that their levels are equal


@pytest.mark.parametrize("others_differ", [True, False])
def test_another_population(*, others_differ: bool) -> None:
    draw = numpy.random.default_rng(5)
    first, second = ({f"x[{i}]": draw.normal(size=300) for i in range(1, 9)} for _ in range(2))
    if others_differ:
        second = {name: values + 1 for name, values in second.items()}
    pair = (
        table("train.npz", **{"x[0]": drawn(1, 1.0)}, **first),
        table("test.npz", **{"x[0]": drawn(2, 2.54)}, **second),
    )
    assert named(*pair) == ([] if others_differ else ["x[0]"])
