"""Where a report goes.

text                    stderr: the script's stdout is its own
any other format        stdout, alone there: what the script writes to stdout goes to stderr meanwhile
--output FILE           the file, whichever the format; the script's stdout and stderr are left alone
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TextIO, final

from trueloop.cli.options import ReportOptions
from trueloop.errors import Misuse
from trueloop.report import print_report, render
from trueloop.results.check import Verdict

__all__ = ["Delivery", "hand_over", "writable"]


@final
class Delivery:
    """Made before the script runs, so that a report which cannot be written is refused before hours of training, not
    after."""

    def __init__(self, options: ReportOptions, *, text_to: TextIO) -> None:
        self._options = options
        self._text_to = text_to
        self._output = None if options.output is None else writable(options.output)
        self._stdout: int | None = None
        """The stdout that we were started with, while the script's goes to stderr."""

    def take_stdout(self) -> None:
        """Send what the script and its children write to stdout to stderr, to the very end: atexit handlers may print
        too."""
        if self._output is not None or self._options.for_people:
            return
        sys.stdout.flush()
        self._stdout = os.dup(1)
        os.dup2(2, 1)

    def deliver(self, verdict: Verdict) -> None:
        options = self._options
        if options.for_people:
            print_report(verdict, to=self._text_to, color=options.colour)
            return
        text = render(verdict, "diff" if options.diff else options.format)
        self._write(text.encode("utf-8", "backslashreplace"))
        if options.diff and self._output is None:
            from trueloop.report.patch import remark

            print(f"trueloop: {remark(verdict)}.", file=sys.stderr)
        if verdict.failures:
            print(verdict.broken(), *verdict.failures, sep="\n", file=sys.stderr)

    def _write(self, document: bytes) -> None:
        if self._output is not None:
            self._output.write_bytes(document)
        elif self._stdout is not None:
            with os.fdopen(self._stdout, "wb") as stdout:
                stdout.write(document)
        else:
            sys.stdout.flush()
            sys.stdout.buffer.write(document)
            sys.stdout.flush()


def hand_over(document: str, output: Path | None) -> None:
    """A document of a verb that runs nobody's script, so that stdout is its own: there, or to the file."""
    if output is None:
        sys.stdout.write(document)
        sys.stdout.flush()
    else:
        output.write_text(document, encoding="utf-8", errors="backslashreplace")


def writable(file: Path, option: str = "--output") -> Path:
    """The file, absolute: the script may go to another folder."""
    file = file.absolute()
    if file.suffix == ".py":
        raise Misuse(f"{option} {file} would overwrite a Python file. Nothing was run: name a file for the report.")
    if file.exists() and not file.is_file() and not file.is_dir():
        return file  # a device or a pipe: opening it would already use it
    there = file.exists()
    try:
        file.open("ab").close()
    except OSError as error:
        raise Misuse(
            f"{option} {file} cannot be written ({error.strerror}). Nothing was run: choose another file."
        ) from None
    if not there:
        file.unlink()
    return file
