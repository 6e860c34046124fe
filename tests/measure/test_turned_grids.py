"""Maps that belong together: one of them is stored upside down, mirrored or turned."""

from __future__ import annotations

from pathlib import Path

import numpy
import pytest

from trueloop.measure.tables import read_tables
from trueloop.measure.turned_grids import turned_grids


def smooth(seed: int, height: int = 60, width: int = 60) -> numpy.ndarray:
    values = numpy.random.default_rng(seed).normal(size=(height, width))
    for _ in range(25):
        for axis in (0, 1):
            values = (numpy.roll(values, 1, axis) + 2 * values + numpy.roll(values, -1, axis)) / 4
    result: numpy.ndarray = values / values.std()
    return result


def found(folder: Path, first: numpy.ndarray, second: numpy.ndarray, name: str = "cover") -> list[str]:
    numpy.savez(folder / "height.npz", height=first)
    numpy.savez(folder / "days.npz", **{name: second})  # type: ignore[arg-type]
    tables = [table for file in ("height.npz", "days.npz") for table in read_tables(str(folder / file))]
    return [difference.units for difference, _, _ in turned_grids(tables)]


HEIGHT = smooth(0)
DAYS = numpy.stack([HEIGHT + 0.3 * smooth(10 + day) > level for day, level in enumerate(numpy.linspace(-1, 1, 24))])


@pytest.mark.parametrize(
    ("height", "how"),
    [
        (HEIGHT[::-1], "upside down"),
        (HEIGHT[:, ::-1], "mirrored left to right"),
        (HEIGHT[::-1, ::-1], "turned by 180 degrees"),
        (HEIGHT.T, "transposed"),
    ],
)
def test_a_map_in_another_orientation(tmp_path: Path, height: numpy.ndarray, how: str) -> None:
    assert found(tmp_path, height, DAYS) == [how]
    assert found(tmp_path, height, -2 * HEIGHT + 0.2 * smooth(1)) == [how]


def test_maps_that_fit(tmp_path: Path) -> None:
    assert found(tmp_path, HEIGHT, DAYS) == []


def test_a_flipped_copy(tmp_path: Path) -> None:
    assert found(tmp_path, HEIGHT, HEIGHT[:, ::-1]) == []


def test_two_sides_of_a_body(tmp_path: Path) -> None:
    assert found(tmp_path, HEIGHT[:, ::-1], DAYS, "left_knee") == []


@pytest.mark.parametrize("seed", range(40))
def test_maps_that_have_nothing_in_common(tmp_path: Path, seed: int) -> None:
    assert found(tmp_path, smooth(seed), smooth(100 + seed)) == []


def test_rows_of_features(tmp_path: Path) -> None:
    rows = numpy.random.default_rng(0).normal(size=(60, 60))
    assert found(tmp_path, rows, rows[::-1] + 0.1 * smooth(0)) == []
