"""Factors between files that are no units: sister files with levels of their own, and other populations."""

from __future__ import annotations

import math
from dataclasses import replace
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


def test_levels_that_rise_from_file_to_file() -> None:
    levels = [1.0, 1.55, 1.17, 1.33, 1.67, 1.83]
    assert differences(*files(levels)[:2])
    assert not named(*files(levels))
    assert named(*files([1.0, 1.609, 1.04, 0.97, 1.63, 1.0])) == ["wear"]


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


@pytest.mark.parametrize(("second", "shift"), [("white.csv", 1.0), ("white.csv", 0.0), ("test.csv", 1.0)])
def test_two_kinds_of_one_thing(second: str, shift: float) -> None:
    """Half of the other columns are alike in red wine and white wine: that is enough for two parts of one data set."""
    first = "train.csv" if second == "test.csv" else "red.csv"
    draw = numpy.random.default_rng(5)
    a, b = ({name: draw.normal(size=300) for name in ("acid", "alcohol", "salt", "density")} for _ in range(2))
    for name in ("acid", "salt"):
        b[name] += shift
    pair = (table(first, sulfur=drawn(1, 1.0), **a), table(second, sulfur=drawn(2, 3.6), **b))
    assert named(*pair) == ([] if shift and second == "white.csv" else ["sulfur"])


def prices(path: str, level: float, seed: int) -> Table:
    close = drawn(seed, level)
    return table(path, open=close * drawn(seed + 50, 1.0) ** 0.05, close=close, volume=drawn(seed + 90, 3e6))


def test_prices_of_two_companies() -> None:
    pair = prices("btc.csv", 30_000, 0), prices("eth.csv", 1_900, 1)
    assert {each.column for each in differences(*pair)} == {"open", "close"}
    assert named(*pair) == ["open", "close"]  # the volumes are alike: one may be in cents
    assert not named(*(replace(each, columns=each.columns[:2]) for each in pair))  # nothing says so
    further = [prices("sol.csv", 9.0, 2), prices("xrp.csv", 160, 3), prices("ada.csv", 0.4, 4)]
    assert not named(*pair, *further)
    assert named(*pair, prices("sol.csv", 31_000, 2), prices("xrp.csv", 1_950, 3)) == ["open", "close"]
