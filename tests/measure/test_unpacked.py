"""Data files that are larger, or deeper, than they look."""

from pathlib import Path

import numpy

from trueloop.measure.row_names import names_rows
from trueloop.measure.tables import read_tables
from trueloop.measure.unpacked import unpacked_size
from trueloop.measure.vocabulary import read_vocabularies
from trueloop.measure.word_vectors import read_word_lists


def test_packed_arrays_count_as_they_are_read(tmp_path: Path) -> None:
    path = tmp_path / "zeros.npz"
    numpy.savez_compressed(path, zeros=numpy.zeros(10**7, "u1"))
    assert path.stat().st_size < 10**5
    assert unpacked_size(str(path)) > 10**7


def test_other_files_count_as_they_are_stored(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    (tmp_path / "damaged.npz").write_text("no archive")
    assert unpacked_size(str(tmp_path / "table.csv")) == 8
    assert unpacked_size(str(tmp_path / "damaged.npz")) == unpacked_size(str(tmp_path / "gone.npz")) == 0


def test_json_that_is_too_deep_to_read_holds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "deep.json"
    path.write_text("[" * 200_000 + "]" * 200_000)
    assert not read_tables(str(path))
    assert not read_word_lists(str(path))
    assert not read_vocabularies(str(path))
    assert not names_rows(str(path), 4)
