"""Targets by name, and the rows that have these names: in tables with several rows for each, or beside a list."""

from __future__ import annotations

import numpy
import pytest
from numpy.typing import NDArray

from trueloop.measure.rows_by_name import misplaced_by_name
from trueloop.measure.tables import Table, Values

COUNT = 300
NAMES = [f"T{number}" for number in range(1, COUNT + 1)]


def of_names(path: str, names: list[str], **columns: NDArray[numpy.float64]) -> Table:
    numbers = [Values(name, values, None, "text") for name, values in columns.items()]
    return Table(path, (Values("name", None, names, "text"), *numbers), len(names), True)


def found(target: NDArray[numpy.float64], names: list[str], features: NDArray[numpy.float64]) -> str | None:
    groups = of_names("rows.csv", [name for name in names for _ in range(3)], a=features.ravel())
    targets = of_names("targets.csv", NAMES, height=target)
    one = misplaced_by_name(targets, [targets, groups])
    return None if one is None else one.misplaced.alignment.order


@pytest.mark.parametrize("seed", range(3))
def test_targets_sorted_apart_from_their_names(seed: int) -> None:
    draw = numpy.random.default_rng(seed)
    features = draw.normal(size=(COUNT, 3))
    target = features.mean(1) + draw.normal(0, 0.1, COUNT)
    as_text = [NAMES.index(name) for name in sorted(NAMES)]
    assert found(target, NAMES, features) is None
    assert found(target[as_text], NAMES, features) is not None
    assert found(target[as_text], [NAMES[row] for row in as_text], features) is None  # by position, they fit
    assert found(numpy.roll(target, 1), NAMES, features) is None  # of the name before: a forecast
    assert found(draw.normal(size=COUNT), NAMES, features) is None
    assert found(draw.permutation(target), NAMES, features) is None
    assert found(numpy.sort(target), NAMES, features) is None
