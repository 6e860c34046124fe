"""What a list of files says about each of them (sampling rate, width, length), and what their headers say."""

import os
import struct
import wave
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy

from trueloop.measure.tables import Table

__all__ = ["Contradicted", "Declared", "contradicted", "declared"]

MOST: Final = 80  # files whose headers are read
LEAST: Final = 20
EXTENSIONS: Final = (".wav", ".png", ".npy")
NAMES: Final = {
    "rate": ("sample_rate", "samplerate", "sampling_rate", "sr", "rate", "fs", "framerate", "rate_hz"),
    "channels": ("channels", "n_channels", "num_channels"),
    "frames": ("frames", "samples", "n_frames", "num_frames", "n_samples", "num_samples", "length"),
    "seconds": ("duration", "seconds", "duration_s", "dur"),
    "width": ("width", "w", "img_w", "image_width", "img_width"),
    "height": ("height", "h", "img_h", "image_height", "img_height"),
}
FEW_WRONG: Final = 0.05  # of the files that a list names
MANY_WRONG: Final = 0.2
TOLERANCE: Final = 0.02  # of a number of seconds, which is rounded


class Declared(NamedTuple):
    """How often a column of a list agrees with the headers of the files that it names."""

    column: str
    files: int
    wrong: float  # share of the files
    example: str  # file
    says: float  # what the list says about it
    header: float


class Contradicted(NamedTuple):
    column: str
    agrees: tuple[str, str]  # a list, and what its column says
    contradicts: tuple[str, str]
    table: Table  # the latter


def contradicted(tables: list[Table]) -> Iterator[Contradicted]:
    """A list of files that their headers contradict, where they agree with another list."""
    lists = [(table, each) for table in tables for each in declared(table)]
    right = {each.column: (os.path.basename(table.path), each) for table, each in lists if each.wrong <= FEW_WRONG}
    for table, each in lists:
        if each.wrong >= MANY_WRONG and each.column in right:
            other, agreed = right[each.column]
            here = f"`{each.column}` is that of the file in {1 - agreed.wrong:.0%} of {agreed.files:,} rows"
            there = (f"not so in {each.wrong:.0%} of {each.files:,} rows (`{each.example}` has {each.header:g}, "
                     f"the list says {each.says:g})")  # fmt: skip
            yield Contradicted(each.column, (other, here), (os.path.basename(table.path), there), table)


def declared(table: Table) -> list[Declared]:
    """For each column of a list of files that their headers know."""
    columns = {column.name: column.numbers for column in table.columns if column.numbers is not None}
    known = {name: fact for name in columns for fact, names in NAMES.items() if name.lower() in names}
    if not known:
        return []
    step = max(1, table.rows // MOST)
    headers = {row: facts for row in range(0, table.rows, step) if (facts := _header_of_row(table, row))}
    found = []
    for name, fact in known.items():
        pairs = [(row, float(columns[name][row]), facts[fact]) for row, facts in headers.items() if fact in facts]
        wrong = [pair for pair in pairs if abs(pair[1] - pair[2]) > (TOLERANCE * pair[2] if fact == "seconds" else 0)]
        if len(pairs) >= LEAST:
            row, says, header = wrong[0] if wrong else pairs[0]
            file = next(cell for cell in _cells(table, row) if cell.endswith(EXTENSIONS))
            found.append(Declared(name, len(pairs), len(wrong) / len(pairs), file, says, header))
    return found


def _cells(table: Table, row: int) -> list[str]:
    return [column.words[row] for column in table.columns if column.words is not None and column.kind != "digest"]


def _header_of_row(table: Table, row: int) -> dict[str, float]:
    folder = os.path.dirname(table.path)
    for cell in _cells(table, row):
        if cell.endswith(EXTENSIONS):
            for path in (cell, os.path.join(folder, cell), os.path.join(os.path.dirname(folder), cell)):
                if os.path.isfile(path):
                    return _header(path)
    return {}


def _header(path: str) -> dict[str, float]:
    try:
        if path.endswith(".wav"):
            with wave.open(path) as sound:
                rate, frames = sound.getframerate(), sound.getnframes()
                return {"rate": rate, "channels": sound.getnchannels(), "frames": frames, "seconds": frames / rate}
        if path.endswith(".npy"):
            array = numpy.load(path, mmap_mode="r", allow_pickle=False)
            return {"frames": len(array)} if array.ndim else {}
        with open(path, "rb") as file:
            head = file.read(24)
    except (OSError, EOFError, ValueError, wave.Error, struct.error, ZeroDivisionError):
        return {}  # not the format that its name says
    if head[:8] != b"\x89PNG\r\n\x1a\n" or len(head) < 24:
        return {}
    width, height = struct.unpack(">II", head[16:24])
    return {"width": width, "height": height}
