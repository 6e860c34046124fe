"""Means and deviations in a JSON file, beside data of their own and of others; and files that hold anything else."""

from __future__ import annotations

import json
from pathlib import Path

import numpy
import pytest
import torch

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


def crops(path: Path) -> list[Table]:
    draw = numpy.random.default_rng(1)
    records = numpy.zeros(300, [("red", "f4"), ("green", "f4"), ("crop", "i2")])
    records["red"], records["green"] = draw.normal(900, 60, 300), draw.normal(1100, 70, 300)
    numpy.save(path / "train.npy", records)
    return read_tables(str(path / "train.npy"))


@pytest.mark.parametrize("layout", ["of statistics", "of columns", "listed", "toml"])
@pytest.mark.parametrize("factor", [1, 40, 1e-4])
def test_statistics_by_the_names_of_columns(tmp_path: Path, layout: str, factor: float) -> None:
    tables = crops(tmp_path)
    mean, std = {"green": 1100.0, "red": 900.0}, {"green": 70.0 * factor, "red": 60.0 * factor}
    if factor < 1:  # the script divides by 10,000 first
        mean = {name: value * factor for name, value in mean.items()}
    columns = {name: {"mean": mean[name], "std": std[name], "n": 300} for name in mean}
    contents = {
        "of statistics": {"mean": mean, "std": std},
        "of columns": {"version": 2, "columns": columns},
        "listed": {"bands": list(mean), "mean": list(mean.values()), "std": list(std.values())},
    }
    path = stored(tmp_path, contents.get(layout, ""))
    if layout == "toml":
        path = str(tmp_path / "stats.toml")
        lines = [f"[{name}]\nmean = {mean[name]}\nstd = {std[name]}\n" for name in mean]
        Path(path).write_text("".join(lines), encoding="utf-8")
    (stated,) = read_statistics(path)
    found = foreign_statistics(stated, tables)
    assert (found is not None) == (factor == 40)


def test_statistics_of_names_that_no_file_has(tmp_path: Path, data: list[Table]) -> None:
    content = {"mean": dict.fromkeys("abc", 900.0), "std": dict.fromkeys("abc", 900.0)}
    (stated,) = read_statistics(stored(tmp_path, content))
    assert foreign_statistics(stated, data) is None


def test_statistics_in_arrays(tmp_path: Path, data: list[Table]) -> None:
    mean, std = numpy.full((1, 3, 1, 1), 90.0), numpy.full((1, 3, 1, 1), 60.0)
    numpy.savez(tmp_path / "stats.npz", mean=mean, std=std)
    torch.save({"mean": torch.from_numpy(mean), "std": torch.from_numpy(std)}, tmp_path / "stats.pt")
    for name in ("stats.npz", "stats.pt"):
        (stated,) = read_statistics(str(tmp_path / name))
        assert foreign_statistics(stated, data) is not None
    (tmp_path / "stats.npz").write_bytes(b"PK\x03\x04 cut off")
    assert read_statistics(str(tmp_path / "stats.npz")) == []
