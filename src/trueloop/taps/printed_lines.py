"""The lines that a script prints, as it prints them: `write` of its stdout also hands them on. Nothing is changed."""

import sys
from collections.abc import Callable
from typing import Any, Final, final

__all__ = ["PrintedLines"]

LONGEST: Final = 4096  # characters of an unfinished line that are kept


@final
class PrintedLines:
    def __init__(self, heard: Callable[[str], None]) -> None:
        self._heard = heard
        self._stream: Any = None
        self._line = ""

    def install(self) -> None:
        stream: Any = sys.stdout
        original = getattr(stream, "write", None)
        if original is None or "write" in getattr(stream, "__dict__", {"write": None}):
            return  # no stdout, or somebody else listens already

        def write(text: str, *args: Any, **kwargs: Any) -> Any:
            result = original(text, *args, **kwargs)
            if type(text) is str:
                self._add(text)
            return result

        stream.write = write
        self._stream = stream

    def remove(self) -> None:
        if self._stream is not None:
            del self._stream.write
            self._stream = None

    def _add(self, text: str) -> None:
        if "\n" not in text:
            self._line = (self._line + text)[-LONGEST:]
            return
        *lines, rest = (self._line + text).split("\n")
        self._line = rest[-LONGEST:]
        for line in lines:
            self._heard(line[-LONGEST:])
