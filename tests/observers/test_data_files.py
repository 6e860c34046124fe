"""Data files that a script opened are compared at the end of the run, each kind of contradiction with its numbers."""

from __future__ import annotations

import csv
import wave
from pathlib import Path
from unittest.mock import patch

import numpy
import pytest

from trueloop.event import Event, FilesDiffer, InvariantBroken, Place, TablesRead
from trueloop.observers import data_files
from trueloop.observers.data_files import DataFilesObserver
from trueloop.observers.run_objects import RunObjects
from trueloop.taps.bus import Bus
from trueloop.taps.calls import FileOpened, RunEnd


def broken(folder: Path) -> list[InvariantBroken]:
    return [event for event in seen(folder) if isinstance(event, InvariantBroken)]


def seen(folder: Path) -> list[Event]:
    """What is emitted after a script has read all tables of a folder."""
    events: list[Event] = []
    bus = Bus(events.append)
    observer = DataFilesObserver(bus, RunObjects(bus))
    script = folder / "train.py"
    script.write_text("print()\n")
    for path in sorted(folder.rglob("*.csv")):
        observer.file_opened(FileOpened(str(path), False, Place(str(script), 1, "")))
    only_this = patch.object(data_files, "users_modules", lambda path: (path,))  # not all modules of the suite
    with only_this:
        observer.run_ended(RunEnd("finished"))
    return events


def clips(folder: Path, name: str, said: int | None) -> None:
    """Sound files of two rates, and a list that gives their rate, or one rate for all."""
    with open(folder / f"{name}.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["file", "sample_rate", "label"])
        for number in range(40):
            rate = 8000 if number % 4 == 0 else 16000
            with wave.open(str(folder / f"{name}{number}.wav"), "wb") as sound:
                sound.setnchannels(1)
                sound.setsampwidth(2)
                sound.setframerate(rate)
                sound.writeframes(b"\0\0" * 80)
            rows.writerow([f"{name}{number}.wav", said or rate, f"word {number % 3}"])


def test_a_list_that_the_headers_contradict(tmp_path: Path) -> None:
    clips(tmp_path, "train", 8000)
    clips(tmp_path, "test", None)
    (event,) = broken(tmp_path)
    assert (event.kind, event.columns, event.other) == ("header", ("sample_rate",), "train.csv")
    assert "75%" in event.there


def test_lists_that_agree_and_lists_that_mean_something_else(tmp_path: Path) -> None:
    for folder, said in (("right", None), ("target", 22050)):
        (tmp_path / folder).mkdir()
        clips(tmp_path / folder, "train", said)
        clips(tmp_path / folder, "test", said)
        assert not broken(tmp_path / folder)


def test_numbers_at_the_end_of_the_range_are_compared_without_a_warning(tmp_path: Path) -> None:
    """Warnings of NumPy would appear among the script's own output; here they are errors."""
    random = numpy.random.default_rng(0)
    for kind in ("power", "weather"):
        for year in (2022, 2023):
            odd = random.choice([1e-320, -1e308, 1.5e308, 3.5], 500)
            numbers = numpy.stack([numpy.arange(500.0), 1e308 * random.uniform(-1, 1, 500), odd], 1)
            header = f"time,{kind},odd"
            numpy.savetxt(tmp_path / f"{kind}_{year}.csv", numbers, delimiter=",", header=header, comments="")
    assert isinstance(seen(tmp_path)[0], TablesRead)


def sensor(path: Path, weights: tuple[float, ...], seed: int, header: str) -> None:
    """A time, and three axes that all follow one signal."""
    random = numpy.random.default_rng(seed)
    signal = random.choice([-1.0, 1.0], 600)
    axes = numpy.outer(signal, weights) + random.normal(0, 0.6, (600, 3))
    path.parent.mkdir(exist_ok=True)
    rows = numpy.column_stack([numpy.arange(600) / 10, axes])
    numpy.savetxt(path, rows, fmt="%.3f", delimiter=",", header=header, comments="")


@pytest.mark.parametrize("header", ["", "time,x,y,z", "time,axis_x,axis_y,axis_z"])
def test_two_sensors_of_a_recording_are_not_compared_with_one_another(tmp_path: Path, header: str) -> None:
    for number, folder in enumerate(("session", "field")):
        sensor(tmp_path / folder / "accel.csv", (1.0, -0.8, 0.9), number, header)
        sensor(tmp_path / folder / "gyro.csv", (1.0, 0.8, -0.9), 10 + number, header)
    assert not [event for event in seen(tmp_path) if isinstance(event, FilesDiffer)]


@pytest.mark.parametrize("header", ["", "time,x,y,z"])
@pytest.mark.parametrize("names", [("session/accel", "field/accel"), ("accel_train", "accel_test"), ("run1", "run2")])
def test_one_sensor_whose_axis_is_turned_in_one_recording(tmp_path: Path, names: tuple[str, str], header: str) -> None:
    sensor(tmp_path / f"{names[0]}.csv", (1.0, -0.8, 0.9), 0, header)
    sensor(tmp_path / f"{names[1]}.csv", (1.0, 0.8, 0.9), 1, header)
    found = [event for event in seen(tmp_path) if isinstance(event, FilesDiffer)]
    assert "inverted" in {event.kind for event in found}
