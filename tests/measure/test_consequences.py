"""Counts that follow from a label, and tables of many fields that look alike."""

from collections.abc import Iterator
from typing import Any

import numpy
import pytest
from numpy.typing import NDArray

from trueloop.measure.consequences import consequences
from trueloop.measure.tables import Table, Values

Floats = NDArray[Any]
ROWS = 4000


def table(**columns: Any) -> Table:
    made = tuple(
        Values(name, None, cells) if isinstance(cells, list) else Values(name, numpy.asarray(cells, dtype=float))
        for name, cells in columns.items()
    )
    return Table("rows.csv", made, len(made[0]), named=True)


def drawn(rng: numpy.random.Generator, logit: Floats) -> Floats:
    return (rng.random(len(logit)) < 1 / (1 + numpy.exp(-logit))).astype(float)


def named(x: Floats) -> dict[str, Floats]:
    return {f"x{place}": values for place, values in enumerate(x)}


@pytest.mark.parametrize("rows", [1500, 6000])
def test_a_count_that_was_taken_after_the_outcome(rows: int) -> None:
    rng = numpy.random.default_rng(0)
    x = rng.normal(size=(4, rows))
    y = drawn(rng, 1.5 * (x[0] + x[1] - x[2] - 0.4))
    before = rng.poisson(0.5, rows)
    (found,) = consequences(table(**named(x), calls=before + y * (1 + rng.poisson(1.5, rows)), y=y))
    assert (found.column, found.label, found.causes) == ("calls", "y", 3)
    assert found.area > found.others > 0.8
    assert found.related > 0.3 > 0.1 > abs(found.given)
    assert not list(consequences(table(**named(x), calls=before, y=y)))


def test_words_are_causes_too() -> None:
    rng = numpy.random.default_rng(1)
    x, queue = rng.normal(size=(2, ROWS)), rng.integers(0, 4, ROWS)
    y = drawn(rng, 1.5 * (x[0] + x[1]) + numpy.array([-1.5, -0.5, 0.5, 1.5])[queue])
    words = [f"q{each}" for each in queue]
    assert list(consequences(table(**named(x), queue=words, calls=rng.poisson(0.4, ROWS) + 2 * y, y=y)))


def states(rng: numpy.random.Generator) -> Iterator[tuple[str, Table]]:
    """All columns are measurements of one state."""
    y = (rng.random(ROWS) < 0.35).astype(float)
    effects = numpy.array([[0.9], [0.7], [0.5], [0.6]]) * y
    errors = rng.poisson(0.3 + 3 * y)
    noise, common = rng.normal(size=(4, ROWS)), rng.normal(size=ROWS)
    yield "independent", table(**named(noise + effects), errors=errors, y=y)
    yield "one disturbance", table(**named(noise + 0.7 * common + effects), errors=errors, y=y)
    mixed = rng.normal(size=(4, 4)) @ noise
    yield "several disturbances", table(**named(mixed + effects), errors=errors, y=y)
    words = {f"x{place}": rng.poisson(0.2 + rate * y) for place, rate in enumerate((0.6, 0.4, 2.5, 0.5, 0.3))}
    yield "words of a mail", table(**words, y=y)
    wear = rng.normal(size=ROWS)
    sensors = named(numpy.array([[1.0], [0.8], [0.6], [0.5]]) * wear + noise)
    y = drawn(rng, 2 * wear - 0.5)
    yield "wear", table(**sensors, orders=rng.poisson(numpy.exp(0.9 * wear - 0.5)), y=y)
    yield "wear above a threshold", table(**sensors, orders=rng.poisson(numpy.exp(1.5 * wear - 1)), y=wear > 0.3)


def outcomes(rng: numpy.random.Generator) -> Iterator[tuple[str, Table]]:
    """The columns lead to an outcome."""
    x = rng.normal(size=(5, ROWS))
    risk = x[0] + x[1] - x[2]
    visits = rng.poisson(1.2, ROWS)
    yield (
        "a strong cause",
        table(**named(x), k=visits, y=drawn(rng, 3 * (visits - 1.2) + x[0] + 0.8 * x[1] - 0.7 * x[2])),
    )
    yield "a rule", table(**named(x), k=visits, y=visits >= 1)
    visits = rng.poisson(numpy.exp(0.6 * x[0] + 0.5 * x[1] - 0.3 * x[2]))
    yield "a cause with causes", table(**named(x), k=visits, y=drawn(rng, 1.5 * (visits - 1) + risk))
    yield "a cause between", table(**named(x), k=visits, y=drawn(rng, 3 * (visits - 1.0)))
    sold = rng.poisson(numpy.exp(0.8 * rng.normal(size=ROWS) + 0.1))
    yield "previous sales", table(**named(x), k=sold, y=drawn(rng, 2.5 * (sold - 1.2) + 0.7 * (x[0] + x[1] + x[2])))
    status = rng.choice(6, ROWS, p=[0.5, 0.2, 0.1, 0.1, 0.05, 0.05])
    yield "payment status", table(**named(x), k=status, y=drawn(rng, 1.6 * status - 2 + 0.8 * risk))
    y = drawn(rng, 2 * risk)
    older = numpy.round(9 * numpy.clip(1 / (1 + numpy.exp(-risk)) + 0.15 * rng.normal(size=ROWS), 0, 1))
    yield "the score of an older model", table(**named(x), k=older, y=y)
    triage = numpy.clip(numpy.round(2 + 1.3 * risk + 0.5 * rng.normal(size=ROWS)), 0, 6)
    yield "a triage", table(**named(x), k=triage, y=y)
    yield "a test that decides", table(**named(x), k=2 * y + rng.normal(size=ROWS), y=y)
    yield (
        "a test with errors",
        table(**named(x), k=numpy.where(y > 0, rng.random(ROWS) < 0.93, rng.random(ROWS) < 0.05), y=y),
    )
    bits = rng.integers(0, 2, (6, ROWS))
    yield "bits", table(**named(bits), k=rng.integers(0, 6, ROWS), y=bits[0] ^ bits[1])
    cases = numpy.flatnonzero(drawn(rng, risk - 1.5))
    kept = rng.permutation(numpy.concatenate([cases, rng.integers(0, ROWS, len(cases))]))
    calls = rng.poisson(numpy.exp(0.7 * x[0] - 0.2))
    yield "cases and controls", table(**named(x[:, kept]), k=calls[kept], y=numpy.isin(kept, cases))


@pytest.mark.parametrize("seed", range(3))
def test_columns_that_were_known_before_the_outcome(seed: int) -> None:
    rng = numpy.random.default_rng(seed)
    found = {name: list(consequences(one)) for name, one in (*states(rng), *outcomes(rng))}
    assert len(found) == 18
    assert not {name for name, each in found.items() if each}


def _worn(rng: numpy.random.Generator, counted_after: bool, threshold: float = 0.8) -> Table:
    """Causes of wear, two measurements of it, a failure that follows from it, and a count."""
    causes, noise = rng.normal(size=(4, ROWS)), rng.normal(size=(3, ROWS))
    wear = 0.6 * causes.sum(0) + 0.6 * noise[0]
    measured = {"current": wear + 0.6 * noise[1], "closing": 0.7 * wear + 0.6 * noise[2]}
    y = drawn(rng, 2.5 * (wear - 0.5))
    count = rng.poisson(0.2 + 3 * (y if counted_after else wear > threshold))
    return table(**named(causes), **measured, orders=count, y=y)


@pytest.mark.parametrize("seed", range(3))
def test_measurements_of_the_state_beside_its_causes(seed: int) -> None:
    rng = numpy.random.default_rng(seed)
    assert [found.column for found in consequences(_worn(rng, counted_after=True))] == ["orders"]
    assert not list(consequences(_worn(rng, counted_after=False)))
    assert not list(consequences(_worn(rng, counted_after=False, threshold=0.4)))
