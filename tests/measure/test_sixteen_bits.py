"""Counts that wrapped around in integers of 16 bits in all files of a data set."""

from __future__ import annotations

from pathlib import Path

import numpy
import pytest

from trueloop.measure.sixteen_bits import counts_beyond_range
from trueloop.measure.tables import read_tables


def found(folder: Path, name: str, values: numpy.ndarray, kind: str = ".npz", dtype: str = "int32") -> list[str]:
    tables = []
    for number, part in enumerate(numpy.array_split(values, 3)):
        path = folder / f"seg_{number}{kind}"
        if kind == ".npz":
            columns = {"depth": numpy.arange(len(part)), name: part.astype(dtype)}
            numpy.savez(path, **columns)  # type: ignore[arg-type]
        else:
            path.write_text("\n".join([f"depth,{name}", *(f"{row},{value}" for row, value in enumerate(part))]))
        tables += read_tables(str(path))
    return [difference.column for difference, _, _ in counts_beyond_range(tables)]


COUNTS = numpy.random.default_rng(0).gamma(8.0, 20_000.0, 900).astype(numpy.int64)
WRAPPED = COUNTS.astype(numpy.int16).astype(numpy.int64)


@pytest.mark.parametrize(("name", "kind"), [("dust_count", ".npz"), ("n_reads", ".csv"), ("monthlySales", ".csv")])
def test_a_count_that_wrapped(tmp_path: Path, name: str, kind: str) -> None:
    assert found(tmp_path, name, WRAPPED, kind) == [name]


def test_counts_that_did_not(tmp_path: Path) -> None:
    assert found(tmp_path, "dust_count", COUNTS) == []
    assert found(tmp_path, "dust_count", COUNTS.clip(-32768, 32767)) == []


@pytest.mark.parametrize("name", ["heading", "net_amount", "phase", "random_id", "signal"])
def test_what_has_a_sign(tmp_path: Path, name: str) -> None:
    assert found(tmp_path, name, WRAPPED) == []


def test_numbers_that_were_stored_as_such(tmp_path: Path) -> None:
    """Quantized on purpose: their type has this range."""
    assert found(tmp_path, "intensity", WRAPPED, dtype="int16") == []


def test_numbers_around_zero(tmp_path: Path) -> None:
    amounts = numpy.random.default_rng(1).normal(0, 11_000, 900).clip(-32768, 32767).astype(numpy.int64)
    assert found(tmp_path, "amount", amounts) == []
