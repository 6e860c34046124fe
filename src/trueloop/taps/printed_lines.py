"""The lines that a script prints, as it prints them: `write` of its stdout also hands them on. Nothing is changed."""

import sys
from collections.abc import Callable
from typing import Any, Final, final

from trueloop.torch_private.compiler import compiler_callback, hide_from_compiler

__all__ = ["PrintedLines"]

LONGEST: Final = 4096  # characters of an unfinished line that are kept


@final
class PrintedLines:
    def __init__(self, heard: Callable[[str], None]) -> None:
        self._heard = heard
        self._stream: Any = None
        self._before: Any = None  # What to put back: the `write` of the stream object itself, if it had one
        self._write: Any = None
        self._line = ""

    def install(self) -> None:
        """Over a `write` that somebody else has put there (`console.log` does), which is called as before."""
        stream: Any = sys.stdout
        if not hasattr(stream, "write") or not hasattr(stream, "__dict__"):
            return  # no stdout, or one that cannot be patched
        original, self._before = stream.write, vars(stream).get("write")

        def write(text: str, *args: Any, **kwargs: Any) -> Any:
            result = original(text, *args, **kwargs)
            # Inside of torch.compile's frames each function that is called may be compiled: ours would be, too.
            if self._stream is not None and type(text) is str and compiler_callback() is None:
                self._add(text)
            return result

        hide_from_compiler(write.__code__)
        stream.write = self._write = write
        self._stream = stream

    def remove(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None and vars(stream).get("write") is self._write:  # else the script has put its own over it
            del stream.write
            vars(stream).update({} if self._before is None else {"write": self._before})

    def _add(self, text: str) -> None:
        if "\n" not in text:
            self._line = (self._line + text)[-LONGEST:]
            return
        *lines, rest = (self._line + text).split("\n")
        self._line = rest[-LONGEST:]
        for line in lines:
            self._heard(line[-LONGEST:])
