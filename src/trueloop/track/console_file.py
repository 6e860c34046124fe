"""`console.log` in the run's folder: the end of what a run printed, as complete lines. The page of the run shows it.

A line that is drawn over itself by carriage returns (a progress bar) is kept as it was last; colors are left out. The
file has a limited size: when it is full, its older half goes.
"""

import io
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TextIO, final

__all__ = ["FILE", "ConsoleFile", "OutputCopy", "copy_output"]

FILE: Final = "console.log"
MOST_BYTES: Final = 1 << 19
LONGEST_LINE: Final = 1 << 14  # characters
_ESCAPES: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


@final
class ConsoleFile(io.TextIOBase):
    """Appends to the file of earlier parts of the run. Raises OSError."""

    def __init__(self, folder: Path, most: int = MOST_BYTES) -> None:
        self.path, self.most = folder.absolute() / FILE, most
        self._line = ""  # without its end

    def write(self, text: str) -> int:
        *complete, self._line = (self._line + text).split("\n")
        self._line = self._line[-LONGEST_LINE:]
        if complete:
            self._append("".join(f"{_as_shown(line)}\n" for line in complete).encode("utf-8", "backslashreplace"))
        return len(text)

    def end(self) -> None:
        """A line without an end is a line too."""
        if self._line:
            self.write("\n")

    def _append(self, lines: bytes) -> None:
        """Opened each time: nothing is left to close in a run that ends anyhow."""
        size = self.path.stat().st_size if self.path.is_file() else 0
        if size + len(lines) > self.most:
            kept = self.path.read_bytes()[-(self.most // 2) :].partition(b"\n")[2] if size else b""
            self.path.write_bytes((kept + lines)[-self.most :])
            return
        with self.path.open("ab", buffering=0) as file:
            file.write(lines)


def _as_shown(line: str) -> str:
    return _ESCAPES.sub("", line.rstrip("\r").rpartition("\r")[2][-LONGEST_LINE:])


@final
class OutputCopy:
    """Until something fails, and in this process only: a forked child has its own lines."""

    def __init__(self, file: ConsoleFile) -> None:
        self.file, self.pid, self.failure = file, os.getpid(), ""

    def add(self, text: str) -> None:
        self._try(lambda: self.file.write(text))

    def end(self) -> None:
        self._try(self.file.end)

    def _try(self, write: Callable[[], object]) -> None:
        if not self.failure and os.getpid() == self.pid:
            try:
                write()
            except OSError as error:
                self.failure = f"{FILE}: {error.strerror or error}"


@contextmanager
def copy_output(folder: Path, *streams: TextIO) -> Iterator[OutputCopy]:
    """Until its end, what is written to the streams also goes to `console.log`. The streams stay the same objects, only
    their `write` is a different function. What bypasses it (child processes, C code, `sys.stdout.buffer`) is not
    copied."""
    copy = OutputCopy(ConsoleFile(folder))
    copied = {id(stream): stream for stream in streams if hasattr(stream, "__dict__")}.values()
    before = [vars(stream).get("write") for stream in copied]
    for stream in copied:
        _add_copy(stream, copy)
    try:
        yield copy
    finally:
        for stream, write in zip(copied, before, strict=True):
            vars(stream).pop("write", None)
            vars(stream).update({} if write is None else {"write": write})
        copy.end()


def _add_copy(stream: TextIO, copy: OutputCopy) -> None:
    write = stream.write

    def write_both(text: str) -> int:
        count = write(text)
        copy.add(text)
        return count

    stream.write = write_both  # type: ignore[method-assign]
