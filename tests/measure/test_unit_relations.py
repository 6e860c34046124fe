"""Units that differ by less than a column's spread, days and months, numbers that float32 rounds; and look-alikes."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

from trueloop.measure.table_differences import Difference, differences, single_file
from trueloop.measure.tables import Table, Values
from trueloop.measure.unit_names import fits_name
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


def hourly(seed: int, mean: float) -> Table:
    draw = numpy.random.default_rng(seed)
    level = mean * numpy.exp(walk(draw, 0.97, 0.08))
    weather, noise = walk(draw, 0.98, 1.0), draw.normal(0, 0.5, 500)
    return table(level=level, load=50 + weather + noise + level * numpy.exp(0.1 * draw.normal()))


def walk(draw: numpy.random.Generator, keep: float, size: float) -> Any:
    steps, places = draw.normal(0, size, 500), numpy.zeros(500)
    for row in range(1, 500):
        places[row] = keep * places[row - 1] + steps[row]
    return places


@pytest.mark.parametrize("seed", [73, 74])
def test_hours_that_are_like_the_hours_before(seed: int) -> None:
    assert not found(hourly(seed, 10.0), hourly(seed + 1000, 13.4))


@pytest.mark.parametrize(
    ("column", "units", "fits"),
    [
        ("lot_m2", "kg and pounds", False), ("price_eur", "kg and pounds", False), ("lot", "kg and pounds", True),
        ("temp_max", "miles and km", False), ("roomTemp", "degrees Celsius and Fahrenheit", True),
        ("t_c", "degrees Celsius and kelvin", True), ("width_mm", "mm and inches", True),
        ("speed", "miles and km", True), ("way km", "m and feet", False),
        ("speed_kmh", "knots and km/h", True), ("glucose_mmol", "mmol/L and mg/dL", True),
        ("power_w", "a factor of 1,000", True), ("", "miles and km", True), ("x[3]", "miles and km", True),
    ],
)  # fmt: skip
def test_units_that_fit_a_name(column: str, units: str, fits: bool) -> None:
    assert fits_name(column, units) == fits


def test_two_regions_with_other_amounts_in_one_unit() -> None:
    draw = numpy.random.default_rng(7)
    lots = [draw.lognormal(5.4, 0.5, 400) * factor for factor in (1.0, 2.2)]
    assert [each.kind for each in differences(*(table(lot=lot) for lot in lots))] == ["units"]
    assert not differences(*(table(lot_m2=lot) for lot in lots))
    assert [each.kind for each in differences(table(lot_m2=lots[0]), table(lot_m2=lots[0] * 10))] == ["units"]


def test_a_unit_in_the_name_of_a_column() -> None:
    def named(name: str) -> set[tuple[str, str]]:
        parts = freight(0), freight(9, miles=True)
        first, second = (table(**{name: x.column("distance").numbers, "cost": x.column("cost").numbers}) for x in parts)
        return found(first, second)

    for name in ("distance", "distance_km", "way mi", "f_attempts"):
        assert named(name) == {(name, "miles and km")}
    for name in ("temp", "air_temperature_max", "area_ha", "weightKg"):
        assert not named(name)


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
