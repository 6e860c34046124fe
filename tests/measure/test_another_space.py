"""Features of two networks: the sign of one of them says nothing. One column that is turned around does."""

from __future__ import annotations

import numpy

from trueloop.measure.table_relations import relations
from trueloop.measure.tables import Table, Values


def features(seed: int, network: int, *, turned: int | None = None) -> Table:
    draw, weights = numpy.random.default_rng(seed), numpy.random.default_rng(network)
    values = numpy.tanh(draw.normal(size=(400, 6)) @ weights.normal(size=(6, 20)) / 3)
    if turned is not None:
        values[:, turned] *= -1
    return Table("x.pt", tuple(Values(f"x[{i}]", column) for i, column in enumerate(values.T)), 400, named=True)


def inverted(first: Table, second: Table) -> list[str]:
    return [found.column for found in relations(first, second) if found.kind == "inverted"]


def test_one_column_is_turned_around() -> None:
    assert inverted(features(0, 7), features(1, 7)) == []
    assert inverted(features(0, 7), features(1, 7, turned=3)) == ["x[3]"]


def test_features_of_another_network() -> None:
    for network in range(20):
        assert inverted(features(0, 7), features(1, network)) == []
