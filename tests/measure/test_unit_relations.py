"""Units that differ by less than a column's spread, days and months, numbers that float32 rounds; and look-alikes."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

from trueloop.measure.table_differences import Difference, single_file
from trueloop.measure.tables import Table, Values
from trueloop.measure.unit_relations import conversions


def table(**columns: Any) -> Table:
    values = tuple(
        Values(key, numpy.asarray(value, dtype=float)) if not isinstance(value, list) else Values(key, None, value)
        for key, value in columns.items()
    )
    return Table("a.csv", values, len(values[0]), named=True)


def found(first: Table, second: Table) -> set[tuple[str, str]]:
    return {(each.column, each.units) for each in conversions(first, second)}


def freight(seed: int, *, miles: bool = False, farther: float = 1.0, per_km: float = 0.45) -> Table:
    draw = numpy.random.default_rng(seed)
    km = draw.gamma(2.5, 160 * farther, 600)
    cost = 60 + per_km * km + draw.normal(0, 25, 600)
    return table(distance=km / 1.609344 if miles else km, cost=cost, doors=draw.integers(1, 5, 600))


def heating(seed: int, *, fahrenheit: bool = False, colder: float = 0.0) -> Table:
    draw = numpy.random.default_rng(seed)
    celsius = draw.uniform(-12, 28, 500) - colder
    load = numpy.maximum(18 - celsius, 0) * 2.1 + draw.normal(0, 3, 500)
    return table(temperature=celsius * 1.8 + 32 if fahrenheit else celsius, load=load)


@pytest.mark.parametrize("seed", range(3))
def test_units_by_which_a_relation_holds_again(seed: int) -> None:
    assert found(freight(seed), freight(seed + 9, miles=True)) == {("distance", "miles and km")}
    assert found(freight(seed, miles=True), freight(seed + 9)) == {("distance", "miles and km")}
    expected = {("temperature", "degrees Celsius and Fahrenheit")}
    assert found(heating(seed), heating(seed + 9, fahrenheit=True)) == expected


@pytest.mark.parametrize("seed", range(5))
def test_another_site_is_no_other_unit(seed: int) -> None:
    assert not found(freight(seed), freight(seed + 9))
    assert not found(freight(seed), freight(seed + 9, farther=1.609))  # as far apart as miles and km, and dearer
    assert not found(freight(seed), freight(seed + 9, farther=0.621))
    assert not found(freight(seed), freight(seed + 9, per_km=0.45 * 1.609))  # dearer at the same distances
    assert not found(heating(seed), heating(seed + 9, colder=10))
    draw = numpy.random.default_rng(seed)  # as far as miles, but nothing follows from it
    noise = [table(distance=draw.gamma(2.5, s, 600), cost=draw.normal(size=600)) for s in (160, 99)]
    assert not found(*noise)


def test_parts_of_one_table() -> None:
    first, second = freight(0), freight(1, miles=True)
    both = {name: numpy.concatenate([t.column(name).numbers for t in (first, second)]) for name in first.names}
    rows = numpy.arange(1200)
    units = [each.units for each in conversions(table(**both), table(**both), rows[:600], rows[600:])]
    assert units == ["miles and km"]
    assert not list(conversions(table(**both), table(**both), rows[:300], rows[300:600]))


def kinds(found: list[Difference]) -> list[str]:
    return [each.kind for each in found if each.kind != "text date"]


def test_dates_whose_first_part_is_the_day_or_the_month() -> None:
    days = [(day, month) for month in range(1, 13) for day in range(1, 29)]
    assert kinds(single_file(table(date=[f"{d:02d}/{m:02d}/2020" for d, m in days]))) == ["day first"]
    assert kinds(single_file(table(date=[f"{m}/{d}/2020 10:00" for d, m in days]))) == ["month first"]
    assert not kinds(single_file(table(date=[f"2020-{m:02d}-{d:02d}" for d, m in days])))
    assert not kinds(single_file(table(date=[f"{d % 12 + 1:02d}/{m:02d}/2020" for d, m in days])))  # cannot be told
    both = [f"{d:02d}/{m:02d}/2020" for d, m in days] + [f"{m:02d}/{d:02d}/2020" for d, m in days]
    assert not kinds(single_file(table(date=both)))
    assert not kinds(single_file(table(date=[f"31/{m:02d}/2020" for m in (1, 3, 5) * 20])))  # none can be mistaken


def test_numbers_that_float32_rounds_to_their_neighbors() -> None:
    draw = numpy.random.default_rng(0)
    accounts = (91_400_000 + draw.integers(0, 900, 3000)).astype(numpy.float32).astype(numpy.float64)

    def single(values: Any, kind: str) -> list[str]:
        return kinds(single_file(Table("a.npz", (Values("account", values, None, kind),), len(values), True)))

    assert single(accounts, "float32") == ["collapsed"]
    assert not single(accounts - 91_400_000, "float32")
    assert not single(numpy.round(draw.lognormal(19, 1, 3000)), "float32")  # amounts: rounded, but apart
    assert not single(91_400_000.0 + draw.integers(0, 900, 3000), "int64")
