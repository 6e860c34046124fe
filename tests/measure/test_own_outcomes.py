"""Running columns that contain the outcome of their own row, and others that look alike."""

from collections.abc import Callable

import numpy
import pytest
from numpy.typing import NDArray

from trueloop.measure.own_outcomes import own_outcome
from trueloop.measure.tables import Table, Values

Floats = NDArray[numpy.float64]


def table(**columns: Floats | list[str]) -> Table:
    made = tuple(
        Values(name, None, cells) if isinstance(cells, list) else Values(name, numpy.asarray(cells, dtype=float))
        for name, cells in columns.items()
    )
    return Table("rows.csv", made, len(made[0]), named=True)


def somebody(rng: numpy.random.Generator, rows: int = 3000, count: int = 60) -> list[str]:
    return [f"c{number}" for number in rng.integers(count, size=rows)]


def by_row(who: list[str], step: Callable[[float, int], tuple[float, float]], start: float = 0.0) -> Floats:
    """What each step writes, from the state of the same one: (written, new state)."""
    state: dict[str, float] = {}
    written = []
    for row, one in enumerate(who):
        value, state[one] = step(state.get(one, start), row)
        written.append(value)
    return numpy.array(written)


def counted(*, own: bool) -> Table:
    rng = numpy.random.default_rng(0)
    who, late = somebody(rng), (rng.random(3000) < 0.3).astype(float)
    count = by_row(who, lambda state, row: (state + own * late[row], state + late[row]))
    return table(customer=who, amount=rng.random(3000), late_before=count, late=late)


def test_a_count_of_events_that_includes_its_own() -> None:
    found = own_outcome(counted(own=True))
    assert found is not None
    assert (found.column, found.group, found.label) == ("late_before", "customer", "late")
    assert found.own == 1.0
    assert found.earlier < 0.8
    assert own_outcome(counted(own=False)) is None


def test_a_moving_average_of_results() -> None:
    rng = numpy.random.default_rng(1)
    who, won = somebody(rng), rng.integers(0, 2, 3000).astype(float)
    for own in (True, False):
        after = by_row(who, lambda state, row: ((new := 0.7 * state + 0.3 * won[row]), new))
        before = by_row(who, lambda state, row: (state, 0.7 * state + 0.3 * won[row]))
        form = after if own else before
        assert (own_outcome(table(player=who, form=form, won=won)) is not None) == own


def healthy(kind: str) -> Table:
    rng = numpy.random.default_rng(3)
    who, noise = somebody(rng), rng.normal(size=3000)
    chance = rng.random(3000)
    if kind == "wear that causes a fault":
        wear = by_row(who, lambda state, row: ((new := 0.8 * state + noise[row]), new))
        return table(lift=who, wear=wear, fault=(chance < 1 / (1 + numpy.exp(-4 * wear))).astype(float))
    if kind == "a threshold on the level":
        level = by_row(who, lambda state, row: ((new := 0.5 * state + noise[row]), new))
        return table(pump=who, level=level, alarm=(level > 1).astype(float))
    if kind == "the next change":
        price = by_row(who, lambda state, row: (state, state + noise[row]))
        return table(ticker=who, price=price, up=(noise > 0).astype(float))
    if kind == "a meter that never stands still":
        used = numpy.abs(noise) + 0.1
        meter = by_row(who, lambda state, row: (state + used[row], state + used[row]))
        return table(meter_id=who, reading=meter, label=(used > 1).astype(float))
    if kind == "days since the last service":
        days = by_row(who, lambda state, row: (state, 0.0 if chance[row] < 0.1 else state + 1))
        return table(unit=who, days=days, failed=(noise > 1).astype(float))
    if kind == "age":
        age = by_row(who, lambda state, _: (state + 1, state + 1))
        return table(patient=who, age=age, relapse=(chance < 0.3).astype(float))
    if kind == "a balance before the payment":
        balance = by_row(who, lambda state, row: (state, state + noise[row]))
        return table(
            account=who, balance=balance, amount=noise, fraud=(chance < 0.05 + 0.2 * (noise > 1)).astype(float)
        )
    if kind == "a class of the one":
        classes = numpy.array([float(len(one) % 2) for one in who])
        return table(writer=who, height=noise + classes, label=classes)
    if kind == "rows in no order":
        return table(team=who, rating=1500 + 50 * noise, result=["HDA"[int(3 * each)] for each in chance])
    week = by_row(who, lambda state, _: (state + 1, state + 1))
    return table(shop=who, week=week, sales=noise, sold_out=(noise + 0.1 * week > 1).astype(float))


@pytest.mark.parametrize(
    "kind",
    ["wear that causes a fault", "a threshold on the level", "the next change", "a meter that never stands still",
     "days since the last service", "age", "a balance before the payment", "a class of the one", "rows in no order",
     "kinds of transactions", "weeks and sales"],
)  # fmt: skip
def test_columns_that_were_known_before(kind: str) -> None:
    assert own_outcome(healthy(kind)) is None
