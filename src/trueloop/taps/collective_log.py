"""The log of a rank's collectives, written before each one starts, so that other ranks can read what a rank that hangs
or died was doing.

    1.calls     a ring buffer of fixed-size records: number, state and times of the last calls
    1.names     the names, groups and user's lines that the numbers in it refer to, one line of JSON each

Writing a record is one system call, about a microsecond. Times are those of the machine's monotonic clock, which its
processes share.
"""

import json
import os
import struct
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal, final

from trueloop.event import Collective, Place

__all__ = ["CollectiveLog", "read_collective_log"]

SLOTS: Final = 256  # Calls that are kept: those of several steps, so that the first difference is among them
STACK: Final = 4  # User's lines kept for each call: `if rank == 0:` may be some functions further out

_RECORD: Final = struct.Struct("<QQQiiiqBddiiiiQ")
"""serial, number, direct, group, name, dtype, size, state, entered, left, four lines, and serial again to detect a
partial write."""
_STATES: Final[tuple[Literal["inside", "left", "failed"], ...]] = ("inside", "left", "failed")
_NOTHING: Final = -1
Group = tuple[str, tuple[int, ...]]  # A process group: its name and its ranks


@final
class CollectiveLog:
    """The log of this rank; in an unnamed file if there is no folder that other ranks could read."""

    def __init__(self, rank: int, folder: Path | None) -> None:
        self.rank = rank
        self._calls = _opened(folder, f"{rank}.calls")
        self._lines = _opened(folder, f"{rank}.names")
        self._index: dict[object, int] = {}  # Name, group or place -> its number
        self._known: list[Any] = []
        self._serial = 0
        self._numbers: Counter[int] = Counter()
        self._direct: Counter[int] = Counter()

    def enter(
        self, name: str, group: Group, places: tuple[Place, ...], *, size: int | None, dtype: str, direct: bool
    ) -> tuple[Any, ...]:
        """Log that a call starts; returns the record for `leave`."""
        at = self._number(group)
        self._serial += 1
        self._numbers[at] += 1
        self._direct[at] += direct
        lines = [self._number(place) for place in places[:STACK]]
        lines += [_NOTHING] * (STACK - len(lines))
        counts = (self._serial, self._numbers[at], self._direct[at] if direct else 0)
        what = (at, self._number(name), self._number(dtype), _NOTHING if size is None else size)
        record = (*counts, *what, 0, time.monotonic(), 0.0, *lines, self._serial)
        self._write(record)
        return record

    def leave(self, record: tuple[Any, ...], *, failed: bool) -> None:
        self._write((*record[:7], 2 if failed else 1, record[8], time.monotonic(), *record[10:]))

    @property
    def written(self) -> int:
        """Calls so far."""
        return self._serial

    def calls(self) -> tuple[Collective, ...]:
        """The last calls, oldest first."""
        return tuple(_calls(os.pread(self._calls, SLOTS * _RECORD.size, 0), self._known))

    def _write(self, record: tuple[Any, ...]) -> None:
        os.pwrite(self._calls, _RECORD.pack(*record), record[0] % SLOTS * _RECORD.size)

    def _number(self, thing: str | Place | Group) -> int:
        number = self._index.get(thing)
        if number is None:
            number = self._index[thing] = len(self._index)
            known: Any = [thing.path, thing.line, thing.function] if isinstance(thing, Place) else thing
            self._known.append(known)
            os.write(self._lines, json.dumps(known).encode() + b"\n")
        return number


def read_collective_log(rank: int, folder: Path) -> tuple[Collective, ...]:
    """The log of another rank so far; empty if it has not started."""
    try:
        calls, lines = (folder / f"{rank}.calls").read_bytes(), (folder / f"{rank}.names").read_bytes()
    except FileNotFoundError:
        return ()
    return tuple(_calls(calls, [json.loads(line) for line in lines.splitlines()]))


def _opened(folder: Path | None, name: str) -> int:
    if folder is None:
        with tempfile.TemporaryFile() as file:
            return os.dup(file.fileno())
    return os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)


def _calls(data: bytes, known: list[Any]) -> Iterator[Collective]:
    complete = len(data) - len(data) % _RECORD.size
    records = [record for record in _RECORD.iter_unpack(data[:complete]) if record[0] and record[0] == record[-1]]
    now = time.monotonic()
    for _, number, direct, group, name, dtype, size, state, entered, left, *lines, _ in sorted(records):
        places = [known[line] for line in lines if line != _NOTHING]
        yield Collective(
            group=known[group][0],
            members=tuple(known[group][1]),
            number=number,
            direct=direct,
            name=known[name],
            size=None if size == _NOTHING else size,
            dtype=known[dtype],
            state=_STATES[state],
            seconds=round((left or now) - entered, 3),
            places=tuple(Place(*place) for place in places),
        )
