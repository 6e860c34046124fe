"""Where a report goes.

text                    stdout; for a script that is watched stderr, because its stdout is its own
any other format        stdout, alone: what a watched script prints to stdout goes to stderr meanwhile
--output FILE           the file, in the format of --format or of the file's suffix
--quiet                 text in the terminal is left out when there is no problem
"""

import argparse
import os
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Final, TextIO, final

from trueloop.errors import CannotSave, Misuse
from trueloop.report import print_report, render
from trueloop.results.document import Document

__all__ = ["SUFFIXES", "Delivery", "deliver", "writable", "write_file"]

SUFFIXES: Final = {".html": "html", ".json": "json", ".md": "markdown", ".sarif": "sarif"}
"""Suffix of --output -> format, where the verb has it."""


@final
class Delivery:
    """Created before the work begins: a report that cannot be written is refused before hours of training, not after.

    `options` are parsed by a parser with `add_report_options`.
    """

    def __init__(self, options: argparse.Namespace, *, text_to: TextIO | None = None) -> None:
        self.format: str = "diff" if getattr(options, "diff", False) else options.format or "text"
        self.color: bool = not options.no_color
        self.quiet: bool = getattr(options, "quiet", False)
        self._verbose: bool = getattr(options, "verbose", False)
        self._text_to = text_to
        files = [writable(Path(name)) for name in options.output]
        by_suffix = self.format == "text" and options.format is None
        self._files = {file: _format_of(file, options.formats) if by_suffix else self.format for file in files}
        self._stdout: int | None = None  # The stdout that we were started with, while the script's goes to stderr

    @property
    def in_terminal(self) -> bool:
        """Text that is read as it comes; everything else is a document."""
        return self.format == "text" and not self._files

    @property
    def to_file(self) -> bool:
        return bool(self._files)

    def take_stdout(self) -> None:
        """Redirect the stdout of the script and its children to stderr, to the very end: atexit handlers may print."""
        if not self.to_file and not self.in_terminal:
            sys.stdout.flush()
            self._stdout = os.dup(1)
            os.dup2(2, 1)

    def deliver(self, result: Any, *, healthy: bool = False) -> None:
        """`healthy`: there is no problem, so that --quiet prints nothing."""
        for file, format in self._files.items():
            write_file(file, self._rendered(result, format))
        if self._files:
            return
        if not self.in_terminal:
            self._write(self._rendered(result, self.format))
        elif not (self.quiet and healthy):
            to = self._text_to or sys.stdout
            print_report(result, to=to, color=self.color, verbose=self._verbose)
            to.flush()

    def deliver_text(self, writers: Mapping[str, Callable[[], str]], document: Callable[[], Document]) -> None:
        """For a verb that writes some formats itself (format -> text); `document` gives the others."""

        def written(format: str) -> str:
            return f"{writers[format]()}\n" if format in writers else render(document(), format)

        for file, format in self._files.items():
            write_file(file, written(format).encode("utf-8", "backslashreplace"))
        if not self._files:
            print(written(self.format), end="")

    def _rendered(self, result: Any, format: str) -> bytes:
        return render(result, format, verbose=self._verbose).encode("utf-8", "backslashreplace")

    def _write(self, document: bytes) -> None:
        if self._stdout is not None:
            with os.fdopen(self._stdout, "wb") as stdout:
                stdout.write(document)
            return
        sys.stdout.flush()
        sys.stdout.buffer.write(document)
        sys.stdout.flush()


def _format_of(file: Path, formats: Collection[str]) -> str:
    format = SUFFIXES.get(file.suffix, "text")
    return format if format in formats else "text"


def deliver(result: Any, options: argparse.Namespace, *, healthy: bool = False) -> None:
    """For a verb that is quick: the whole way at once."""
    Delivery(options).deliver(result, healthy=healthy)


def writable(file: Path, option: str = "--output") -> Path:
    """The file, absolute: the script may change its working directory."""
    file = file.absolute()
    if file.suffix == ".py":
        raise Misuse(f"{option} {file} would overwrite a Python file. Nothing was run: name a file for the report.")
    exists = file.exists()
    if exists and not file.is_file() and not file.is_dir():
        return file  # a device or a pipe: opening it would already use it
    try:
        file.open("ab").close()
    except OSError as error:
        raise Misuse(f"{option} {file} cannot be written ({error.strerror}). Nothing was run: name another.") from None
    if not exists:
        file.unlink()
    return file


def write_file(file: Path, content: bytes) -> None:
    """Raises CannotSave."""
    try:
        file.write_bytes(content)
    except OSError as error:
        raise CannotSave(f"{file} could not be written ({error.strerror or error}).") from None
