"""Data files that a script opened are compared at the end of the run, each kind of contradiction with its numbers."""

from __future__ import annotations

import csv
import wave
from pathlib import Path

from trueloop.event import Event, InvariantBroken, Place
from trueloop.observers.data_files import DataFilesObserver
from trueloop.observers.run_objects import RunObjects
from trueloop.taps.bus import Bus
from trueloop.taps.calls import FileOpened, RunEnd


def broken(folder: Path) -> list[InvariantBroken]:
    events: list[Event] = []
    bus = Bus(events.append)
    observer = DataFilesObserver(bus, RunObjects(bus))
    script = folder / "train.py"
    script.write_text("print()\n")
    for path in sorted(folder.glob("*.csv")):
        observer.file_opened(FileOpened(str(path), False, Place(str(script), 1, "")))
    observer.run_ended(RunEnd("finished"))
    return [event for event in events if isinstance(event, InvariantBroken)]


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
