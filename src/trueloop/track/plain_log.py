"""A plain log, one line at a time, for files, pipes and CI.

step 150/760  epoch   7.9  loss 0.2310  lr 1.2e-03  1,740 samples/s  data 1%  412 MB
valid  step 152  accuracy 0.9850  loss 0.0541  best
"""

import os
import sys
import time
from contextlib import suppress
from typing import Final, TextIO, final

from trueloop.hook import Ending, Hook, Row, Start
from trueloop.track.log_lines import closing, metrics, opening, speed

__all__ = ["PlainLog"]

QUIET: Final = 10.0  # seconds without a line, at most, while steps are taken


@final
class PlainLog(Hook):
    """Its output may fail (`| head`, a full disk): the run continues without it, and says so once on stderr."""

    def __init__(self, to: TextIO | None = None) -> None:
        self.to: TextIO | None = to or sys.stdout
        self.total, self.every = 0, 1
        self.folder = ""
        self.begun = time.monotonic()
        self.last: float | None = None  # when the last row was printed
        self.valid: Row | None = None  # the last validation

    def started(self, start: Start) -> None:
        self.total, self.folder, self.begun = start.total_steps, start.folder, time.monotonic()
        self.every = start.line_every
        for line in opening(start):
            self._say(line)

    def logged(self, row: Row) -> None:
        if row.kind in ("layers", "test"):  # too much for a line; `closing` prints the test
            return
        if row.kind == "train":
            if self._is_between(row.step):
                return
            self._say("  ".join([self._where(row), *metrics(row), *speed(row)]))
        else:
            self.valid = row if row.kind == "valid" else self.valid
            self._say("  ".join([f"{row.kind}  step {row.step}", *metrics(row), *(["best"] if row.best else [])]))

    def _is_between(self, step: int) -> bool:
        """True for one of many rows, soon after the last line."""
        return step % self.every != 0 and step != self.total and not self._was_quiet()

    def _was_quiet(self) -> bool:
        return self.last is None or time.monotonic() - self.last >= QUIET

    def progressed(self, row: Row) -> None:
        """A line soon after the first step, and where log_every rows are rare."""
        if self._was_quiet():
            self._say("  ".join([self._where(row), *metrics(row)]))

    def _where(self, row: Row) -> str:
        self.last = time.monotonic()
        return f"step {row.step:>{len(str(self.total))}}/{self.total}  epoch {row.epoch:5.1f}"

    def noted(self, sentence: str) -> None:
        self._say(sentence)

    def ended(self, ending: Ending) -> None:
        for line in closing(ending, self.folder, time.monotonic() - self.begun, self.valid):
            self._say(line)

    def _say(self, line: str) -> None:
        if self.to is None:
            return
        try:
            print(line, file=self.to, flush=True)
        except OSError as error:
            self._lose(self.to, error)

    def _lose(self, stream: TextIO, error: OSError) -> None:
        self.to = None
        if stream is sys.stdout:
            # Python would complain again when it flushes at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        kept = f" Its metrics are in {self.folder}." if self.folder else ""
        said = f"trueloop: the log can no longer be written ({error.strerror}). The run continues.{kept}\n"
        with suppress(OSError):  # stderr may lead to the same pipe: `2>&1 | head`
            sys.stderr.write(said)
