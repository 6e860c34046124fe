"""A list of files beside the headers of these files."""

from __future__ import annotations

import csv
import struct
import wave
from pathlib import Path

import numpy

from trueloop.measure.file_headers import declared
from trueloop.measure.tables import read_tables


def clips(folder: Path, wrong: int, count: int = 40) -> Path:
    """A list of sound files, of which the first ones are given a rate that they do not have."""
    with open(folder / "train.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["file", "sample_rate", "duration", "label"])
        for number in range(count):
            with wave.open(str(folder / f"clip{number}.wav"), "wb") as sound:
                sound.setnchannels(1)
                sound.setsampwidth(2)
                sound.setframerate(16000)
                sound.writeframes(b"\0\0" * 160)
            rows.writerow([f"clip{number}.wav", 8000 if number < wrong else 16000, "0.01", f"word {number % 3}"])
    return folder / "train.csv"


def test_rates_that_the_headers_contradict(tmp_path: Path) -> None:
    (table,) = read_tables(str(clips(tmp_path, wrong=10)))
    found = {each.column: each for each in declared(table)}
    assert found["sample_rate"].wrong == 0.25
    assert (found["sample_rate"].says, found["sample_rate"].header) == (8000, 16000)
    assert found["duration"].wrong == 0


def test_rates_that_agree(tmp_path: Path) -> None:
    (table,) = read_tables(str(clips(tmp_path, wrong=0)))
    assert [each.wrong for each in declared(table)] == [0, 0]


def test_pictures_arrays_and_files_that_are_not_there(tmp_path: Path) -> None:
    rows = []
    for number in range(30):
        size = struct.pack(">II", 32, 24)
        (tmp_path / f"p{number}.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + size)
        rows.append(f"p{number}.png,32,24")
    (tmp_path / "list.csv").write_text("\n".join(["name,width,height", *rows]))
    (table,) = read_tables(str(tmp_path / "list.csv"))
    assert [(each.column, each.files, each.wrong) for each in declared(table)] == [("width", 30, 0), ("height", 30, 0)]
    (tmp_path / "gone.csv").write_text("\n".join(["name,width", *(f"q{number}.png,32" for number in range(30))]))
    assert declared(read_tables(str(tmp_path / "gone.csv"))[0]) == []


def test_lengths_of_arrays(tmp_path: Path) -> None:
    for number in range(30):
        numpy.save(tmp_path / f"a{number}.npy", numpy.zeros((number + 3, 2)))
    (tmp_path / "list.csv").write_text("\n".join(["file,frames", *(f"a{n}.npy,{n + 3}" for n in range(30))]))
    (found,) = declared(read_tables(str(tmp_path / "list.csv"))[0])
    assert (found.column, found.files, found.wrong) == ("frames", 30, 0)
