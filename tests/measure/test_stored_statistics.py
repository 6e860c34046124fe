"""Means and deviations in a JSON file, beside data of their own and of others; and files that hold anything else."""

from __future__ import annotations

import json
from pathlib import Path

import numpy
import pytest

from trueloop.measure.stored_statistics import foreign_statistics, read_statistics
from trueloop.measure.tables import Table, read_tables


def stored(tmp_path: Path, content: object) -> str:
    path = tmp_path / "stats.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return str(path)


@pytest.fixture
def data(tmp_path: Path) -> list[Table]:
    numpy.save(tmp_path / "x.npy", 5 + 2 * numpy.random.default_rng(0).normal(size=(200, 3)))
    return read_tables(str(tmp_path / "x.npy"))


def test_statistics_of_different_data_are_found(tmp_path: Path, data: list[Table]) -> None:
    (stated,) = read_statistics(stored(tmp_path, {"all": {"mean": [90.0, 80.0, 70.0], "std": [60.0, 50.0, 40.0]}}))
    found = foreign_statistics(stated, data)
    assert found is not None
    assert found.factor > 20


@pytest.mark.parametrize(("mean", "std"), [([5.1, 4.9, 5.0], [2.1, 1.9, 2.0]), ([1.8, 1.8, 1.8], [0.4, 0.4, 0.4])])
def test_statistics_of_this_data_or_of_its_logarithm_are_right(
    tmp_path: Path, data: list[Table], mean: list[float], std: list[float]
) -> None:
    positive = [Table(t.path, t.columns, t.rows, t.named, arrays=((n, abs(a)),)) for t in data for n, a in t.arrays]
    (stated,) = read_statistics(stored(tmp_path, {"mean": mean, "std": std}))
    assert foreign_statistics(stated, positive) is None


@pytest.mark.parametrize(
    "content",
    [
        "{", "[]", "\x00", '{"mean": [NaN, 1], "std": [1, 1]}', '{"mean": [1, 2], "std": [0, 1]}',
        '{"mean": [1' + "0" * 400 + ', 2], "std": [1, 1]}', '{"mean": [1, 2], "std": [1]}',
        '{"mean": {"mean": 1}, "std": "x"}', "[" * 100_000,
    ],
)  # fmt: skip
def test_other_content_is_left_alone(tmp_path: Path, content: str) -> None:
    assert read_statistics(stored(tmp_path, content)) == []
